package apps

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// The recorded server is older than what 1.37 fills in.
func TestRecordedDefaults(t *testing.T) {
	resourcetest.Defaults(t, Kinds(), resourcetest.Except("create StatefulSet", "spec.updateStrategy.rollingUpdate.maxUnavailable"))
}

func TestRecordedTables(t *testing.T)          { resourcetest.Tables(t, Kinds()) }
func TestRecordedRefusals(t *testing.T)        { resourcetest.Invalid(t, Kinds()) }
func TestStoredBytesAreTheObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }
