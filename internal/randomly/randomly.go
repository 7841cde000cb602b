// Package randomly gives random tests a seed with which they can be repeated: each run logs its seed, and the
// environment variable MILLRACE_SEED sets one.
//
//	MILLRACE_SEED=42 go test ./queue -run TestRandomOperationsMatchTheModel
package randomly

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// variable is the environment variable for the seed.
const variable = "MILLRACE_SEED"

// Seed returns the seed of a random test. A test with several rounds adds the round's number to it, and logs the round
// that failed.
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
