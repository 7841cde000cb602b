package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/bench/internal/suite"
)

func TestFlagsHaveDefaultsThatFitTheLengthOfTheRun(t *testing.T) {
	full, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := parse([]string{"--quick", "--time", "1s"})
	if err != nil {
		t.Fatal(err)
	}
	if full.rounds <= quick.rounds || full.deliveries <= quick.deliveries || quick.lasts != time.Second {
		t.Errorf("full %+v, quick %+v", full, quick)
	}
	if _, err := parse([]string{"quick"}); err == nil {
		t.Error("a word that is no flag was taken")
	}
}

func TestCasesAreChosenByName(t *testing.T) {
	all := []suite.Case{{Name: "get", Quick: true}, {Name: "list/1"}, {Name: "list/2"}}
	for _, c := range []struct {
		pattern string
		quick   bool
		want    int
	}{{"", false, 3}, {"", true, 1}, {"^list", true, 2}, {"2$", false, 1}} {
		got, err := choose(all, c.pattern, c.quick)
		if err != nil || len(got) != c.want {
			t.Errorf("%q, quick %v: %d cases, %v", c.pattern, c.quick, len(got), err)
		}
	}
	for _, bad := range []string{"(", "nothing"} {
		if _, err := choose(all, bad, false); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
