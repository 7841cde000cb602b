// Package randomly gives random tests a seed that repeats them: each run logs its own, and MILLRACE_SEED in the environment takes
// the place of the clock.
//
//	MILLRACE_SEED=42 go test ./queue -run TestRandomOperationsMatchTheModel
package randomly

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// variable names the seed in the environment.
const variable = "MILLRACE_SEED"

// Seed is what a random test begins with. A test that runs several times counts up from it, and says at which count it failed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, text := rand.Uint64()>>1, os.Getenv(variable)
	if text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q is not a seed: %v", variable, text, err)
		}
	}
	t.Logf("repeat this run with %s=%d", variable, seed)
	return seed
}
