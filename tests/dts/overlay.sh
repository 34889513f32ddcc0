#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
#
# overlay.sh BASE.dtb OUT.dtb TARGET VARIANT [-DFLAVOUR …]
#
# Puts the devices of a variant into the device tree that QEMU dumped (-machine
# dumpdtb=BASE.dtb, with the same -smp and -m as the later run, without the
# devices). QEMU's tree has no symbols, so overlays name the root by path, and
# interrupts reach their controller through the root's interrupt-parent, which
# only arm's tree has. TARGET is that of QEMU.
# Needs cpp and device-tree-compiler.
set -eu

here=$(dirname "$0")
base=$1
out=$2
target=$3
variant=$4
shift 4

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

case $target in
riscv64)
	plic=$(fdtget "$base" /soc/plic@c000000 phandle)
	set -- -DPLIC="<$plic>" "$@"
	;;
esac
cpp -nostdinc -undef -P -x assembler-with-cpp -I "$here" "$@" \
	"$here/$variant.dtso" "$tmp/overlay.dts"
dtc -q -I dts -O dtb -o "$tmp/overlay.dtbo" "$tmp/overlay.dts"
fdtoverlay -i "$base" -o "$out" "$tmp/overlay.dtbo"
