#!/bin/sh
# Builds the native addon and prints the path of the result, <directory>/ironbus-<platform>-<arch>.node.
#
#   scripts/build-native.sh [--target TRIPLE] [--cargo COMMAND] [--into DIRECTORY]
#
# DIRECTORY: default dist/native, where a program that runs from its sources looks.
# TRIPLE is a Rust target, with a glibc version behind it if COMMAND takes one ("cargo zigbuild",
# "aarch64-unknown-linux-gnu.2.17"); default: this machine. Needs Rust 1.85 or newer.
set -eu

target=
cargo=cargo
root=$(cd "$(dirname "$0")/.." && pwd)
directory=$root/dist/native
while [ $# -gt 0 ]; do
  case $1 in
    --target) target=${2:?--target needs a triple}; shift 2 ;;
    --cargo) cargo=${2:?--cargo needs a command}; shift 2 ;;
    --into) directory=${2:?--into needs a directory}; shift 2 ;;
    *) echo "build-native: unknown argument $1" >&2; exit 2 ;;
  esac
done

mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
cd "$root/native"

# Paths of this machine must not end up in the result: same source, same bytes, wherever it is built.
home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$root/native=/ironbus --remap-path-prefix=$home=/cargo"
export RUSTFLAGS

# Split on purpose: COMMAND may be "cargo zigbuild", whose subcommand replaces "build".
case $cargo in *" "*) build=$cargo ;; *) build="$cargo build" ;; esac
# shellcheck disable=SC2086
$build --release --locked --package ironbus-addon ${target:+--target "$target"} >&2

triple=${target:-$(rustc -vV | sed -n 's/^host: //p')}
triple=$(echo "$triple" | sed 's/\.[0-9][0-9.]*$//')
case $triple in
  x86_64-*) arch=x64 ;;
  aarch64-*) arch=arm64 ;;
  armv7-* | arm-*) arch=arm ;;
  *) echo "build-native: no name for target $triple" >&2; exit 2 ;;
esac
case $triple in
  *-apple-*) platform=darwin library=libironbus_addon.dylib ;;
  *) platform=linux library=libironbus_addon.so ;;
esac

built=${CARGO_TARGET_DIR:-target}${target:+/$triple}/release/$library
result=$directory/ironbus-$platform-$arch.node
# Renamed into place: a process that has the old file mapped keeps it whole.
cp "$built" "$result.new.$$"
mv "$result.new.$$" "$result"
echo "$result"
