package transcode

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/randomly"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestStringsAreEscapedAsByEncodingJSON(t *testing.T) {
	seed := randomly.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		s := make([]byte, rng.IntN(40))
		for i := range s {
			if s[i] = byte('a' + rng.IntN(26)); rng.IntN(12) == 0 {
				s[i] = byte(rng.IntN(256))
			}
		}
		if rng.IntN(3) == 0 {
			s = append(s, "\u2028é\u2029"...)
		}
		want, _ := json.Marshal(string(s))
		if got := quote(nil, s); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %q became %s, want %s", seed, s, got, want)
		}
	}
	for c := range 256 {
		s := bytes.Repeat([]byte{byte(c)}, 9)
		want, _ := json.Marshal(string(s))
		if got := quote(nil, s); !bytes.Equal(got, want) {
			t.Errorf("%q became %s, want %s", s, got, want)
		}
	}
}

func TestVerbatimTextIsUnchangedByEncodingJSON(t *testing.T) {
	seed := randomly.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	tokens := []string{"{", "}", "[", "]", ",", ":", `"a"`, `"f:b"`, `"\""`, `"\u0041"`, `"\x"`, "0", "-1", "01", "1.5", "1.", "2e9", "3E-", "-", "true", "null", "nul", " ", `"<"`, "\"\u2028\"", `"`, `{}`, `{"a":{}}`, `"k":{}`, ",", ":"}
	yes := 0
	for range 300_000 {
		b := []byte{'{'}
		for range rng.IntN(9) {
			b = append(b, tokens[rng.IntN(len(tokens))]...)
		}
		if rng.IntN(2) == 0 {
			b = append(b, '}')
		}
		if !verbatim(b) {
			continue
		}
		yes++
		if want, err := json.Marshal(json.RawMessage(b)); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("seed %d: %s is not verbatim: %s, %v", seed, b, want, err)
		}
	}
	if yes < 1000 {
		t.Errorf("%d texts were verbatim: too few to tell", yes)
	}
	for _, b := range []string{`{}`, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `{"a":[1,-2.5e+3,"x",true,false,null,[],{}]}`, `{"k:{\"x\":1}":{}}`} {
		if !verbatim([]byte(b)) {
			t.Errorf("%s is not taken as it is", b)
		}
	}
}

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
