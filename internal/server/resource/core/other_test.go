package core

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// The registry allocates addresses and ports, and admission adds finalizers of storage.
var handedOut = []resourcetest.Exception{
	resourcetest.Except("create Service", "spec.clusterIP"),
	resourcetest.Except("create Service", "spec.clusterIPs"),
	resourcetest.Except("create Service", "spec.ipFamilies"),
	resourcetest.Except("create Service", "spec.ipFamilyPolicy"),
	resourcetest.Except("create Service nodeport", "spec.ports[0].nodePort"),
	resourcetest.Except("create Service balanced", "spec.ports[0].nodePort"),
	resourcetest.Except("create PersistentVolume", "status.lastPhaseTransitionTime"),
	resourcetest.Except("create Event", "eventTime"), // a placeholder in the recording
}

func TestOtherDefaultsAreThoseOfKubernetes(t *testing.T) {
	resourcetest.Defaults(t, otherKinds(), handedOut...)
}

func TestOtherTablesAreThoseOfKubernetes(t *testing.T) { resourcetest.Tables(t, otherKinds()) }

func TestOtherRefusalsAreThoseOfKubernetes(t *testing.T) { resourcetest.Invalid(t, otherKinds()) }

func TestOtherStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, otherKinds()) }
