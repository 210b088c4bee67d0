# SPDX-License-Identifier: Apache-2.0
"""Ops and kernels in torch's autograd. Imported only if torch is."""
