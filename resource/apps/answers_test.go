package apps

import (
	"testing"

	"github.com/millrace/millrace/resource/resourcetest"
)

func TestObjectsGetTheAnswersOfKubernetes(t *testing.T) { resourcetest.Answers(t, Kinds(), "testdata") }
