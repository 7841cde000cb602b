package bootstraptoken

import (
	"regexp"
	"strings"
	"testing"
)

func TestExtraGroupsAreThoseOfTheExpression(t *testing.T) {
	expression := regexp.MustCompile(extraGroup)
	const prefix = "system:bootstrappers"
	for _, rest := range []string{
		"", ":", ":a", ":a:b-c", ":a-", ":a:", ":A", ":a b", ":a\n", "a", ":0", ":é", ":-a", "::a",
		":" + strings.Repeat("a", 256), ":" + strings.Repeat("a", 257),
	} {
		for _, group := range []string{prefix + rest, "x" + prefix + rest} {
			if got, want := isExtraGroup(group), expression.MatchString(group); got != want {
				t.Errorf("%q: got %v, want %v", group, got, want)
			}
		}
	}
}
