package status_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
)

func TestEveryErrorBecomesAWholeStatus(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err    error
		code   int32
		reason metav1.StatusReason
	}{
		"an API error":         {apierrors.NewNotFound(pods, "p"), http.StatusNotFound, metav1.StatusReasonNotFound},
		"a wrapped API error":  {fmt.Errorf("reading: %w", apierrors.NewConflict(pods, "p", errors.New("changed"))), http.StatusConflict, metav1.StatusReasonConflict},
		"any error":            {errors.New("no idea"), http.StatusInternalServerError, metav1.StatusReasonInternalError},
		"an empty API error":   {&apierrors.StatusError{}, http.StatusInternalServerError, ""},
		"a method":             {status.MethodNotAllowed(), http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed},
		"a path":               {status.NotFound(), http.StatusNotFound, metav1.StatusReasonNotFound},
		"a media type":         {status.UnsupportedMediaType("text"), http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType},
		"an impossible format": {status.Unacceptable("text"), http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable},
	} {
		got := status.Of(c.err)
		if got.Code != c.code || got.Reason != c.reason || got.Status != metav1.StatusFailure || got.Kind != "Status" || got.APIVersion != "v1" {
			t.Errorf("%s becomes %+v", name, got)
		}
	}
}

// Several requests may fail with the same error, and the Status of one is modified before it is sent.
func TestAStatusIsACopy(t *testing.T) {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	status.Of(err).Message = "changed"
	if err.ErrStatus.Message == "changed" || err.ErrStatus.Kind != "" {
		t.Errorf("the error is now %+v", err.ErrStatus)
	}
}
