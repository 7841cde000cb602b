package apiserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/resource"
)

// statusFor is the answer to an error: the one place where errors become what clients see.
func statusFor(err error) *metav1.Status {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		s := known.Status()
		s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		if s.Status == "" {
			s.Status = metav1.StatusFailure
		}
		if s.Code == 0 {
			s.Code = http.StatusInternalServerError
		}
		return &s
	}
	s := apierrors.NewInternalError(err).ErrStatus
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &s
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusFor(err)
	if status.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "code", status.Code, "error", err)
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	f, accepting := accepted(r, asked{})
	if accepting != nil {
		f.media = mediaJSON
	}
	writeStatus(w, f, status)
}

func writeStatus(w http.ResponseWriter, f format, status *metav1.Status) {
	if f.media == mediaProto {
		if b, err := resource.MarshalProto("v1", "Status", status); err == nil {
			writeBytes(w, resource.ProtobufType, int(status.Code), b)
			return
		}
	}
	b, err := json.Marshal(status)
	contentType := ""
	if err == nil {
		b, contentType, err = f.finish(b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, contentType, int(status.Code), b)
}

func writeBytes(w http.ResponseWriter, contentType string, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body)
}

func methodNotAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the server does not allow this method on the requested resource", Details: &metav1.StatusDetails{},
	}}
}

func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

func unsupportedMediaType(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: message,
	}}
}
