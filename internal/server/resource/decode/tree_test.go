package decode_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// agreeOnTree checks the package's guarantee for one text that becomes a tree, and returns whether it was accepted.
func agreeOnTree(t *testing.T, text []byte) (accepted bool) {
	t.Helper()
	got, accepted := decode.Tree(bytes.Clone(text))
	if !accepted {
		return false
	}
	var want map[string]any
	strict, err := strictjson.UnmarshalStrict(text, &want)
	if err != nil || len(strict) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("of %q\n got %#v\nwant %#v (%v, %v)", text, got, want, strict, err)
	}
	return true
}

func TestTreesAreThoseOfTheOtherDecoder(t *testing.T) {
	for text, accepted := range map[string]bool{
		`{}`: true, ` { "a" : [ ] , "b" : { } } `: true, `{"a":1,"b":-2,"c":1.5,"d":1e3,"e":true,"f":null,"g":"\n\u00e9é"}`: true,
		`{"a":9223372036854775807}`: true, `{"a":9223372036854775808}`: false, `{"a":-0}`: false, `{"a":-0.0}`: false, `{"a":1e999}`: false,
		`{"a":1,"a":2}`: false, `{"a":1,}`: false, `{"a":01}`: false, `{"a":[1,]}`: false, `{"a":"\ud800"}`: false, "{\"a\":\"\xff\"}": false,
		`[]`: false, `null`: false, ``: false, `{`: false, `{"a"`: false, `{"a":`: false, `{} {}`: false, `{"a":+1}`: false, `{"a":tru}`: false,
		"{\"a\":\"\x01\"}": false,
	} {
		if got := agreeOnTree(t, []byte(text)); got != accepted {
			t.Errorf("%s: accepted: %v", text, got)
		}
	}
	deep := bytes.Repeat([]byte(`{"a":[`), 5000)
	if _, ok := decode.Tree(deep); ok {
		t.Error("a text that is cut off was accepted")
	}
}

func TestRandomTreesAreThoseOfTheOtherDecoder(t *testing.T) {
	seed := int64(randomly.Seed(t))
	random := rand.New(rand.NewSource(seed))
	refused := 0
	const rounds = 3000
	for range rounds {
		text, err := json.Marshal(randomTree(random, 0))
		if err != nil {
			t.Fatal(err)
		}
		if !agreeOnTree(t, text) {
			refused++
		}
		text[random.Intn(len(text))] = byte(random.Intn(256)) // mostly no longer JSON
		agreeOnTree(t, text)
	}
	if refused > 0 {
		t.Errorf("%d of %d ordinary texts were refused", refused, rounds)
	}
}

func randomTree(random *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range random.Intn(5) {
		m[words[random.Intn(len(words))]+words[random.Intn(len(words))]] = randomValue(random, depth)
	}
	return m
}

func randomValue(random *rand.Rand, depth int) any {
	switch n := random.Intn(8); {
	case n == 0 && depth < 4:
		return randomTree(random, depth+1)
	case n == 1 && depth < 4:
		list := []any{}
		for range random.Intn(4) {
			list = append(list, randomValue(random, depth+1))
		}
		return list
	case n == 2:
		return random.Int63() - random.Int63()
	case n == 3:
		return random.NormFloat64()
	case n == 4:
		return random.Intn(2) == 0
	case n == 5:
		return nil
	}
	return words[random.Intn(len(words))]
}
