// SPDX-License-Identifier: Apache-2.0
// Included before each file of a unity group (cmake/HgCompile.cmake), whose files are one
// translation unit: the tables that every file calls by the same name get the file's own.
#pragma once

#define HG_UNITY_PASTE(name, id) name##_##id
#define HG_UNITY_NAME(name, id) HG_UNITY_PASTE(name, id)
#define kKernels HG_UNITY_NAME(kKernels, HG_UNITY_ID)
#define kOps HG_UNITY_NAME(kOps, HG_UNITY_ID)
#define kRows HG_UNITY_NAME(kRows, HG_UNITY_ID)
#define kRules HG_UNITY_NAME(kRules, HG_UNITY_ID)
#define kShared HG_UNITY_NAME(kShared, HG_UNITY_ID)
#define kTable HG_UNITY_NAME(kTable, HG_UNITY_ID)
