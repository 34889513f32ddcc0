#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# overlay.sh BASE.dtb OUT.dtb VARIANT [-DFLAVOUR …]
#
# Puts the devices of a variant into the device tree that QEMU dumped (-machine
# dumpdtb=BASE.dtb, with the same -smp and -m as the later run, without the
# devices). QEMU's tree has no symbols, so overlays name the root by path, and
# interrupts reach the GIC through the root's interrupt-parent.
# Needs cpp and device-tree-compiler.
set -eu

here=$(dirname "$0")
base=$1
out=$2
variant=$3
shift 3

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cpp -nostdinc -undef -P -x assembler-with-cpp -I "$here" "$@" \
	"$here/$variant.dtso" "$tmp/overlay.dts"
dtc -q -I dts -O dtb -o "$tmp/overlay.dtbo" "$tmp/overlay.dts"
fdtoverlay -i "$base" -o "$out" "$tmp/overlay.dtbo"
