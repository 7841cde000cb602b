package flowcontrol

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }

func TestBootstrapObjectsAreCompleteAndValid(t *testing.T) {
	for _, b := range []Bootstrap{Mandatory(), Suggested()} {
		for _, l := range b.Levels {
			before := l.DeepCopy()
			defaultLevel(l)
			if errs := checkLevel(l); len(errs) > 0 || before.String() != l.String() {
				t.Errorf("%s: %v", l.Name, errs)
			}
		}
		for _, s := range b.Schemas {
			if errs := checkSchema(s); len(errs) > 0 || s.Spec.MatchingPrecedence == 0 {
				t.Errorf("%s: %v", s.Name, errs)
			}
		}
	}
}
