#!/usr/bin/env bash
# Test with the oldest and the newest versions that setup.py allows: tests/try_versions.sh [ROW ...]; without ROW, all rows. For the nightly run.
# Each row gets a new environment in $TMPDIR with the wheel, and the tests of the linker run against the wheel, not the checkout.
# The wheel and the tests come from one copy of the checkout, made at the start, so that edits during the run do not make them differ.
# TORCH=2.13.0: use this version of PyTorch in every row, on a machine that cannot get other versions; each row prints the version that is not tried.
set -euo pipefail
shopt -s extglob
root=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-python3.11}
declare -A ROWS=(
  [oldest]="spacy==3.7.5 thinc==8.2.5 spacy-transformers==1.3.9 transformers==4.40.2 peft==0.11.1 torch==2.2.2 numpy==1.26.4"
  [spacy-3.8.2]="spacy==3.8.2 spacy-transformers==1.3.9 numpy==1.26.4"
  [spacy-3.8.7]="spacy==3.8.7 numpy<2"
  [spacy-3.8.11]="spacy==3.8.11 numpy<2"
  [numpy-1]="spacy<3.9 numpy<2"
  [newest]="spacy<3.9 numpy>=2"
)
[ $# -gt 0 ] || set -- "${!ROWS[@]}"
failed=()
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$root" && cp -r --parents spacy_sapbert tests setup.py pyproject.toml README.md LICENSE MANIFEST.in "$copy")
wheel=$("$PYTHON" -m pip wheel -q --no-deps -w "$copy/wheel" "$copy" > /dev/null && ls "$copy"/wheel/*.whl)
for row in "$@"; do
  folder=$(mktemp -d)
  versions=${ROWS[$row]}
  if [ -n "${TORCH:-}" ]; then
    asked=$(grep -o 'torch==[0-9.]*' <<< "$versions" || true)
    [ "${asked:-torch==$TORCH}" = "torch==$TORCH" ] || echo "== $row: $asked is NOT tried, torch==$TORCH is used instead"
    versions="${versions/torch==+([0-9.])/} torch==$TORCH"
  fi
  echo "== $row: $versions"
  if "$PYTHON" -m venv "$folder/venv" \
    && "$folder/venv/bin/pip" install -q $versions "$wheel" pytest hypothesis scikit-learn \
    && cp -r "$copy/tests" "$copy/pyproject.toml" "$copy/setup.py" "$folder" \
    && (cd "$folder" && venv/bin/python -m pytest -q -p no:cacheprovider -m unit tests/test_linker.py tests/matcher tests/test_registry.py); then
    echo "== $row: passed"
  else
    failed+=("$row")
  fi
  rm -rf "$folder"
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
