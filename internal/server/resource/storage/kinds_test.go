package storage

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestDefaultsAreThoseOfKubernetes(t *testing.T) { resourcetest.Defaults(t, Kinds()) }

func TestTablesAreThoseOfKubernetes(t *testing.T) { resourcetest.Tables(t, Kinds()) }

func TestRefusalsAreThoseOfKubernetes(t *testing.T) { resourcetest.Invalid(t, Kinds()) }

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }
