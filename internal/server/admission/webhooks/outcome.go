package webhooks

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/admission/attributes"
)

// outcome judges what a call came to: it counts it, and tells with which error the request ends. open says that a
// failure is ignored.
func (w *Webhooks) outcome(h *hook, v *attributes.Version, step string, took time.Duration, err error) (open bool, ends error) {
	m, operation := w.o.Metrics, string(v.Operation)
	var failed *failure
	var refused refusal
	switch {
	case err == nil:
		m.Called(h.name, step, operation, 200, false, took)
		return false, nil
	case errors.As(err, &refused):
		code := int(refused.ErrStatus.Code)
		m.Rejected(h.name, step, operation, "no_error", code)
		m.Called(h.name, step, operation, code, true, took)
		w.o.Logger.Debug("a webhook denied a request", "webhook", h.name, "error", err)
		return false, refused.StatusError
	case !errors.As(err, &failed):
		m.Rejected(h.name, step, operation, "apiserver_internal_error", 0)
		m.Called(h.name, step, operation, 0, true, took)
		return false, err
	}
	m.Called(h.name, step, operation, failed.code, !h.ignores, took)
	given := errors.Is(err, context.Canceled) // the request was given up, and the webhook has no part in that
	switch {
	case !h.ignores && !given:
		m.Rejected(h.name, step, operation, "calling_webhook_error", failed.code)
		// The server logs the request that fails, with this error.
		w.o.Logger.Debug("a webhook failed, and its request with it", "webhook", h.name, "configuration", h.configuration, "error", failed.reason)
	case h.ignores && !given:
		m.FailedOpen(h.name, step)
		w.o.Logger.Warn("a webhook failed, which is ignored", "webhook", h.name, "configuration", h.configuration, "error", failed.reason)
		return true, nil
	}
	if h.ignores {
		return false, nil
	}
	return false, apierrors.NewInternalError(failed)
}

// late says that the time of the request is over.
func late(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
