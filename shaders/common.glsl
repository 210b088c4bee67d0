// SPDX-License-Identifier: Apache-2.0
// Included by every shader: the parameter table, and how invocations are numbered. Binding 0 is the table of
// the whole recording. The words of this dispatch begin at `base`, starting with the offsets of bindings 1,
// 2, ... in elements (lib/vulkan/commands.h).
#extension GL_EXT_control_flow_attributes : enable

layout(set = 0, binding = 0) readonly buffer Table { uint table_[]; };
layout(push_constant) uniform Push { uint base_; };

uint P(const uint k) { return table_[base_ + k]; }
int S(const uint k) { return int(table_[base_ + k]); }
float F(const uint k) { return uintBitsToFloat(table_[base_ + k]); }

// The number of this invocation, and of its group, in a grid of one or two dimensions.
uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint invocation() { return group_number() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
