package tree

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/randomly"
)

func TestTreesAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	words := []string{"a", "b.c", `k:{"name":"x"}`, "<b>&", "\u2028", "\\", "\n\x00", "日本語", "\xff", ""}
	var value func(depth int) any
	object := func(depth int) map[string]any {
		m := map[string]any{}
		for range random.IntN(5) {
			m[words[random.IntN(len(words))]] = value(depth + 1)
		}
		return m
	}
	value = func(depth int) any {
		switch n := random.IntN(10); {
		case n < 2 && depth < 4:
			return object(depth)
		case n < 4 && depth < 4:
			var list []any
			for range random.IntN(4) {
				list = append(list, value(depth+1))
			}
			return list
		case n == 4:
			return random.Int64() - random.Int64()
		case n == 5:
			return random.NormFloat64() * math.Pow(10, float64(random.IntN(60)-30))
		case n == 6:
			return random.IntN(2) == 0
		case n == 7:
			return json.Number("12")
		case n == 8:
			return nil
		}
		return words[random.IntN(len(words))]
	}
	for range 2000 {
		m := object(0)
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Append([]byte("before"), m)
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("got %s (%v)\nwant %s", got, err, want)
		}
	}
	if _, err := Append(nil, map[string]any{"a": math.NaN()}); err == nil {
		t.Error("what JSON cannot say was written")
	}
}
