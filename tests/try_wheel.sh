#!/usr/bin/env bash
# Install the wheel in an empty environment and link a text there, from an empty folder with an empty cache: tests/try_wheel.sh [TEST_FILE ...]
# Test files are copied and run against the wheel. $CONSTRAINTS: a file with pinned versions, default constraints.txt; empty: the versions that pip finds.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
constraints=${CONSTRAINTS-$root/constraints.txt}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/empty"
[ $# -eq 0 ] || cp -r "$@" "$folder/empty"
unset PYTHONPATH
export SPACY_SAPBERT_CACHE="$folder/cache" HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

"${PYTHON:-python3.11}" -m venv "$folder/venv"
python="$folder/venv/bin/python"
"$python" -m pip install -q build
"$python" -m build --outdir "$folder/dist" "$root" > "$folder/build.log" 2>&1 || { tail -n 30 "$folder/build.log"; exit 1; } # the wheel is built from the sdist
"$python" -m venv --clear "$folder/venv"
"$python" -m pip install -q ${constraints:+-c "$constraints"} "$folder"/dist/*.whl
cd "$folder/empty"
"$python" -c "import spacy_sapbert as it; print(it.__version__, it.__file__); assert '/site-packages/' in it.__file__"
"$python" -m spacy_sapbert link "Cleft palate and seizures." --format csv | tee "$folder/links.csv"
grep -q C0008925 "$folder/links.csv"
if [ $# -gt 0 ]; then
  "$python" -m pip install -q ${constraints:+-c "$constraints"} pytest
  "$python" -m pytest -q -p no:cacheprovider .
fi
