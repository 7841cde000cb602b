package storage

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// The recorded server is older than what 1.37 fills in.
func TestDefaultsAreThoseOfKubernetes(t *testing.T) {
	resourcetest.Defaults(t, Kinds(), resourcetest.Except("create CSIDriver", "spec.preventPodSchedulingIfMissing"))
}

func TestTablesAreThoseOfKubernetes(t *testing.T) { resourcetest.Tables(t, Kinds()) }

func TestRefusalsAreThoseOfKubernetes(t *testing.T) { resourcetest.Invalid(t, Kinds()) }

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }
