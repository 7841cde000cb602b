package compare

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestDifferencesNameFieldsAsPeopleDo(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{`{"spec": {"replicas": 1}}`, `{"spec": {"replicas": 3}}`, []string{"~ spec.replicas: 1 → 3"}},
		{`{"a": 1}`, `{"b": [1]}`, []string{"- a: 1", "+ b: [1]"}},
		{`{"metadata": {"labels": {"app.io/name": "x"}}}`, `{"metadata": {"labels": {"app.io/name": "y"}}}`, []string{`~ metadata.labels["app.io/name"]: "x" → "y"`}},
		{`{"c": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}`, `{"c": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]}`, []string{`~ c[b].image: "1" → "2"`}},
		{`{"c": [{"name": "a"}, {"name": "a"}]}`, `{"c": [{"name": "a"}]}`, []string{`- c[1]: {"name":"a"}`}},
		{`{"c": [1, 2]}`, `{"c": [1, 3, 4]}`, []string{"~ c[1]: 2 → 3", "+ c[2]: 4"}},
		{`{"a": {"b": 1}}`, `{"a": "text"}`, []string{`~ a: {"b":1} → "text"`}},
		{`{"a": "\u001b[2J"}`, `{"a": 1}`, []string{`~ a: "\u001b[2J" → 1`}},
		{`{"a": 1}`, `{"a": 1}`, nil},
		{`{"kind": "Secret", "data": {"a": "MQ=="}, "type": "x"}`, `{"kind": "Secret", "data": {"a": "Mg==", "b": "Mw=="}, "type": "y"}`,
			[]string{"~ data.a: *** → ***", "+ data.b: ***", `~ type: "x" → "y"`}},
	} {
		var old, new map[string]any
		if json.Unmarshal([]byte(c.old), &old) != nil || json.Unmarshal([]byte(c.new), &new) != nil {
			t.Fatal(c)
		}
		var got []string
		for _, d := range Differences(old, new) {
			got = append(got, d.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s and %s: %q, want %q", c.old, c.new, got, c.want)
		}
	}
}

func TestWhatAStrangerWroteDoesNotCommandATerminal(t *testing.T) {
	if got := Printable("curl\x1b[2J\u009b\n/8"); got != "curl?[2J??/8" {
		t.Errorf("it is %q", got)
	}
}
