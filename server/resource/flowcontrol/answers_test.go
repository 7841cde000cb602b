package flowcontrol

import (
	"testing"

	"github.com/millrace/millrace/server/resource/resourcetest"
)

func TestObjectsGetTheAnswersOfKubernetes(t *testing.T) { resourcetest.Answers(t, Kinds(), "testdata") }
