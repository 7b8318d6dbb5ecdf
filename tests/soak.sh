#!/usr/bin/env bash
# A long run with a fault every few seconds: tests/soak.sh [SECONDS [SEED]]. Same seed, same faults in the same order.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export JETSINK_SOAK_SECONDS=${1:-1800} JETSINK_SOAK_SEED=${2:-1}
exec cargo test --test stress soak -- --nocapture
