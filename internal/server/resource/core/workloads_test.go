package core

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestWorkloadsGetTheRecordedDefaults(t *testing.T) {
	resourcetest.Defaults(t, workloads(), resourcetest.Except("create Node", "spec.taints"))
}

func TestWorkloadsPrintTheRecordedTables(t *testing.T) { resourcetest.Tables(t, workloads()) }

func TestWorkloadsAreRefusedAsRecorded(t *testing.T) {
	resourcetest.Invalid(t, workloads(),
		resourcetest.Except("invalid Pod: priority class unknown", ""),
		resourcetest.Except("invalid Pod: runtime class unknown", ""),
		resourcetest.Except("invalid Pod: finalizer", ""), // the registry validates metadata
	)
}

func TestWorkloadsStoreWhatTheyAre(t *testing.T) { resourcetest.Stored(t, workloads()) }
