package transcode

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCanonicalQuantitiesAreWrittenUnchanged(t *testing.T) {
	seed := randomly.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "x", "i", "Kim"}
	numbers := []string{"0", "00", "000", "1", "10", "8", "16", "128", "1000", "1023", "1024", "2048", "-1", "+1", ".", "5"}
	yes := 0
	for range 200_000 {
		s := ""
		for range rng.IntN(5) {
			s += numbers[rng.IntN(len(numbers))]
		}
		s += suffixes[rng.IntN(len(suffixes))]
		if !canonical([]byte(s)) {
			continue
		}
		yes++
		q, err := resource.ParseQuantity(s)
		if err != nil || q.String() != s {
			t.Fatalf("seed %d: %q is not canonical: %q, %v", seed, s, q.String(), err)
		}
	}
	if yes < 1000 {
		t.Errorf("%d quantities were canonical: too few to tell", yes)
	}
	for _, s := range []string{"0", "1", "100m", "250m", "64Mi", "128Mi", "8Gi", "110", "1Ki", "16393217Ki", "10"} {
		if !canonical([]byte(s)) {
			t.Errorf("%s is not taken as it is", s)
		}
	}
}
