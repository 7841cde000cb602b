package jsontext_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/randomly"
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
		if got := jsontext.Quote(nil, s); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %q became %s, want %s", seed, s, got, want)
		}
	}
}

func TestEveryByteIsEscapedWhereverItIs(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte("abcdefghijklmnopq")
			s[at] = byte(c)
			for _, s := range []string{string(s), `a"b` + string(s)} {
				want, _ := json.Marshal(s)
				if got := jsontext.Quote(nil, s); !bytes.Equal(got, want) {
					t.Fatalf("%q became %s, want %s", s, got, want)
				}
			}
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
		if !jsontext.Verbatim(b) {
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
		if !jsontext.Verbatim([]byte(b)) {
			t.Errorf("%s is not taken as it is", b)
		}
	}
}
