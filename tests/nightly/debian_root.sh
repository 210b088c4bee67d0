# SPDX-License-Identifier: Apache-2.0
# Source this in the source folder. It provides a separate Debian root with the checkout's files in /root/source.
#
#   debian_root FOLDER SUITE     creates FOLDER/SUITE with debootstrap, once; exits with 77 without root or debootstrap
#   inside COMMAND...            runs a command in it
#   quick=(...)                  CMake options for shorter builds: one instruction set, AVX2, and -O1, as for Windows
quick=(-DCMAKE_COMPILE_WARNING_AS_ERROR=ON "-DCMAKE_CXX_FLAGS=-march=x86-64-v3 -DHWY_COMPILE_ONLY_STATIC" "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG")

debian_root() {
  if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "no root or no debootstrap: there is no Debian of its own"
    exit 77
  fi
  root=$1/$2
  mkdir -p "$1"
  if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase "$2" "$root"
    touch "$root/made"
  fi
  # A mirror may lag behind for longer than its signature is valid.
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/90late"
  inside apt-get -qq update
  rm -rf "$root/root/source"
  mkdir "$root/root/source"
  git ls-files -z --cached --others --exclude-standard | tar --null --create --files-from=- | tar --extract --directory="$root/root/source"
}

# It does not use settings of this system, such as a compiler launcher.
inside() {
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive "$@"' "$root" "$@"
}
