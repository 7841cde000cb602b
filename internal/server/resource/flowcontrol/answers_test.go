package flowcontrol

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestObjectsGetTheAnswersOfKubernetes(t *testing.T) { resourcetest.Answers(t, Kinds(), "testdata") }
