package apps

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestRecordedDefaults(t *testing.T)        { resourcetest.Defaults(t, Kinds()) }
func TestRecordedTables(t *testing.T)          { resourcetest.Tables(t, Kinds()) }
func TestRecordedRefusals(t *testing.T)        { resourcetest.Invalid(t, Kinds()) }
func TestStoredBytesAreTheObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }
