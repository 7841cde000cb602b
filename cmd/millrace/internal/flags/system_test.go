package flags

import (
	"strings"
	"testing"
)

func TestOtherSystemsSayWhatTheyLack(t *testing.T) {
	if err := RealNodes("linux"); err != nil || Missing("linux") != "" {
		t.Errorf("Linux lacks something: %v, %q", err, Missing("linux"))
	}
	for _, system := range []string{"darwin", "windows"} {
		if err := RealNodes(system); err == nil || !strings.Contains(err.Error(), "needs Linux") || !strings.Contains(err.Error(), system) {
			t.Errorf("%s: %v", system, err)
		}
		if text := Missing(system); !strings.Contains(text, system) || !strings.Contains(text, "Linux") {
			t.Errorf("%s: %q", system, text)
		}
	}
}
