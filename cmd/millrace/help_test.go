package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/cmd/millrace/internal/serving"
)

func TestHelpForWhatIsNotThereFails(t *testing.T) {
	for args, want := range map[string]string{
		"help upp":         `unknown command "upp" for "millrace"`,
		"help data exprot": `unknown command "exprot" for "millrace data": did you mean export?`,
		"data exprot":      `unknown command "exprot" for "millrace data": did you mean export?`,
		"config nothing":   `unknown command "nothing" for "millrace config": see millrace config --help`,
	} {
		if _, err := execute(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	for _, args := range []string{"help up", "help data export", "data", "help"} {
		if out, err := execute(t, strings.Fields(args)...); err != nil || !strings.Contains(out, "Usage:") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

func TestHelpOfUpBeginsWithTheFlagsThatMatter(t *testing.T) {
	out, err := execute(t, "up", "--help")
	if err != nil {
		t.Fatal(err)
	}
	rest := out
	for _, want := range []string{"Examples:\n", "Flags:\n", "--config", "--data", "--listen", "--nodes", "--runtime", "Audit and encryption:\n", "--audit-policy-file", "Access:\n", "--oidc-issuer-url", "etcd:\n", "--etcd-servers", "Others:\n"} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Errorf("%q is not in its place:\n%s", want, out)
			continue
		}
		rest = after
	}
}

func TestEachMistakeHasItsLine(t *testing.T) {
	err := errors.Join(errors.New("one:\n\n  more"), errors.Join(errors.New("two"), fmt.Errorf("%w and %w", errors.New("three"), errors.New("four"))))
	if got := serving.Lines(err); !slices.Equal(got, []string{"one: more", "two", "three and four"}) {
		t.Errorf("%q", got)
	}
}
