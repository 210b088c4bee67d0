#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh [FOLDER]: makes a release of the checked-out commit, with the version in CMakeLists.txt: its source
# archive in FOLDER (build/release), and the tag v followed by the version. Refuses uncommitted changes, a version
# that CHANGELOG.md does not start with or that a recipe lacks, and an existing tag. It pushes nothing and runs no
# test; run tests/nightly/run first.
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() { echo "release.sh: $*" >&2; exit 1; }
folder=$(realpath -m "${1:-build/release}")
version=$(sed -n 's/^project(hologram VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
changes=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
tag=v$version
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "CMakeLists.txt has version '$version', not three numbers"
[ "$changes" = "$version" ] || refuse "CHANGELOG.md begins with '$changes', CMakeLists.txt has version $version"
python3 tests/install/recipes.py .
[ -z "$(git status --porcelain)" ] || refuse "there are changes that are not committed: $(git status --porcelain | head -n 1)"
if git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null; then refuse "$tag is tagged; the next version is another one"; fi

# The archive is packed from a separate checkout, which contains only committed files.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --no-hardlinks . "$work/source"
off=(-DHG_{BLAS,CONVERTER,IO,OPENMP,SAMPLES,SHARED,TESTS,TOOLS,TRAIN,VULKAN}=OFF)
cmake -S "$work/source" -B "$work/build" "${off[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cpack --config "$work/build/CPackSourceConfig.cmake" -G TGZ -B "$folder" >"$work/log" || { cat "$work/log" >&2; exit 1; }
rm -rf "$folder/_CPack_Packages"
archive=$folder/hologram-$version.tar.gz
[ -s "$archive" ] || refuse "cpack made no $archive"
git tag --annotate --message "Hologram $version" "$tag"
(cd "$folder" && sha256sum "hologram-$version.tar.gz")
echo "$tag is tagged; push it when CI has passed: git push origin $tag"
