# What tests/fuzz/run and tests/fuzz/minimize share. They are in the project's folder when they read this.

work=tests/fuzz/.work
# Inputs that fuzzers have found, a folder for each target: the fewest that cover as much.
found=tests/fuzz/found.tar.gz

fail() {
  printf 'tests/fuzz: %s\n' "$1" >&2
  exit 1
}

# choose_targets [TARGET...]: the named targets, or all, go to the array `targets`.
choose_targets() {
  local target
  targets=("$@")
  if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(cd tests/fuzz/targets && printf '%s\n' *.rs | sed 's/\.rs$//')
  fi
  for target in "${targets[@]}"; do
    [[ -f tests/fuzz/targets/$target.rs ]] || fail "there is no target $target in tests/fuzz/targets"
  done
}

# Unpacks what was found before, for targets that have nothing in $work yet.
unpack_found() {
  local target
  mkdir -p "$work"
  for target in "${targets[@]}"; do
    [[ -d $work/$target ]] || tar -xzf "$found" -C "$work" "$target" 2>/dev/null || mkdir -p "$work/$target"
  done
}

# Writes $work to $found. The same inputs make the same bytes.
pack_found() {
  local all
  mapfile -t all < <(cd tests/fuzz/corpus && printf '%s\n' *)
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -C "$work" -c "${all[@]}" \
    | gzip --no-name --best >"$found"
}

# Builds the programs of all targets, and copies them to $work/bin: a long run goes on with what it began with, even if
# the sources change.
build_targets() {
  local program=tests/.tools/bin/cargo-fuzz target
  [[ -x $program ]] || fail "cargo-fuzz is missing: run tests/setup cargo-fuzz"
  # The service's dependency versions, to which cargo adds the fuzzing engine.
  cp Cargo.lock tests/fuzz/Cargo.lock
  # cargo-fuzz asks for the coverage of a nightly compiler, which a stable one has as well.
  RUSTC_BOOTSTRAP=1 "$program" fuzz build --fuzz-dir tests/fuzz --sanitizer none
  mkdir -p "$work/bin"
  for target in "${targets[@]}"; do
    # A program that runs can be replaced, but not written.
    cp --remove-destination tests/fuzz/target/*/release/"$target" "$work/bin/$target"
  done
}

# run_target TARGET OPTION...: libFuzzer with these options. New inputs go to $work/TARGET.
run_target() {
  local target=$1
  shift
  mkdir -p "$work/$target" "tests/fuzz/artifacts/$target"
  "$work/bin/$target" -artifact_prefix="tests/fuzz/artifacts/$target/" \
    -max_len=65536 -rss_limit_mb=4096 -timeout=10 "$@"
}
