package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/webhook"
)

// failure is a call that did not come to an answer.
type failure struct {
	hook   string
	reason error
	code   int
}

func (f *failure) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", f.hook, f.reason)
}

func (f *failure) Unwrap() error { return f.reason }

// refusal is an answer that does not allow the request.
type refusal struct{ *apierrors.StatusError }

const (
	group   = "admission.k8s.io/"
	kind    = "AdmissionReview"
	unknown = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
)

// call asks a webhook. The answer is valid, and may be a refusal.
func (w *Webhooks) call(ctx context.Context, h *hook, v *attributes.Version, mutating bool) (*admissionv1.AdmissionResponse, error) {
	if v.DryRun && !h.dryRun {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name))
	}
	fail := func(code int, format string, args ...any) error {
		return &failure{h.name, fmt.Errorf(format, args...), code}
	}
	at := slices.IndexFunc(h.versions, func(v string) bool { return v == "v1" || v == "v1beta1" })
	if at < 0 {
		return nil, fail(400, "could not create admission objects: %w", errors.New(unknown))
	}
	uid, version := uuid.NewUUID(), h.versions[at]
	body, err := question(v, uid, version)
	if err != nil {
		return nil, fail(400, "could not create admission objects: %w", err)
	}
	text, err := w.post(ctx, h, body, w.credentials(mutating))
	switch {
	case errors.Is(err, webhook.ErrBundle):
		return nil, fail(503, "could not get REST client: %w", err)
	case err != nil:
		return nil, fail(codeOf(err), "failed to call webhook: %w", err)
	}
	answer, err := understand(text)
	if err != nil {
		return nil, fail(503, "failed to call webhook: %w", err)
	}
	if other := group + "v1beta1"; version == "v1" && answer.Kind == kind && answer.APIVersion == other {
		return nil, fail(503, "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion")
	}
	if err := check(answer, uid, version, mutating); err != nil {
		return nil, fail(503, "received invalid webhook response: %w", err)
	}
	return answer.Response, nil
}

// understand reads an answer. As in Kubernetes it may be YAML.
func understand(text []byte) (*admissionv1.AdmissionReview, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		converted, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, err
		}
		text = converted
	}
	var said struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	answer := &admissionv1.AdmissionReview{}
	return answer, json.Unmarshal(text, answer)
}

func codeOf(err error) int {
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		return int(status.ErrStatus.Code)
	}
	return 503
}

// post sends a question within the time of the webhook and of the request.
func (w *Webhooks) post(ctx context.Context, h *hook, body []byte, with *webhook.Credentials) ([]byte, error) {
	if h.seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(h.seconds)*time.Second)
		defer cancel()
	}
	target := h.target
	target.Credentials = with
	if by, ok := ctx.Deadline(); ok {
		if left := time.Until(by); left > 0 {
			target.Timeout = (left + time.Second - 1).Truncate(time.Second) // whole seconds
		}
	}
	return w.o.Client.Post(ctx, target, body)
}

func (w *Webhooks) credentials(mutating bool) *webhook.Credentials {
	if mutating {
		return w.o.Credentials[mutatingName]
	}
	return w.o.Credentials[validatingName]
}

// question is what a webhook is sent.
func question(v *attributes.Version, uid types.UID, version string) ([]byte, error) {
	request := v.Review(uid)
	request.RequestSubResource = v.View
	var err error
	if request.Object.Raw, err = attributes.JSON(v.New); err != nil {
		return nil, err
	}
	if request.OldObject.Raw, err = attributes.JSON(v.Before); err != nil {
		return nil, err
	}
	if o := v.Options(); o != nil {
		request.Options = runtime.RawExtension{Object: o}
	}
	return json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: group + version, Kind: kind}, Request: request})
}

// check refuses answers that are none. Those of v1beta1 were never held to their names.
func check(a *admissionv1.AdmissionReview, uid types.UID, version string, mutating bool) error {
	r := a.Response
	switch wanted := group + version; {
	case r == nil:
		return errors.New("webhook response was absent")
	case version != "v1":
		if !mutating {
			r.Patch = nil
		}
		r.PatchType = nil
		if len(r.Patch) > 0 {
			r.PatchType = new(admissionv1.PatchTypeJSONPatch)
		}
		return nil
	case r.UID != uid:
		return fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case a.APIVersion != wanted || a.Kind != kind:
		return fmt.Errorf("expected webhook response of %v, Kind=%s, got %v", wanted, kind, a.GroupVersionKind())
	case !mutating && len(r.Patch) > 0:
		return errors.New("validating webhook may not return response.patch")
	case !mutating && r.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return nil
}

// take passes on what an answer says besides: annotations of the audit event, and warnings. It tells whether the
// request is refused.
func take(h *hook, v *attributes.Version, answer *admissionv1.AdmissionResponse) error {
	for k, value := range answer.AuditAnnotations {
		v.Note(h.name+"/"+k, value)
	}
	for _, text := range answer.Warnings {
		v.Tell(text)
	}
	if answer.Allowed {
		return nil
	}
	return refusal{denied(h.name, answer.Result)}
}

// denied is the status of a refusal.
func denied(name string, result *metav1.Status) *apierrors.StatusError {
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	status.Code = max(status.Code, 400)
	if status.Status == "" || status.Status == metav1.StatusSuccess {
		status.Status = metav1.StatusFailure
	}
	words := string(status.Reason)
	if status.Message != "" {
		words = status.Message
	}
	if words == "" {
		words = " without explanation"
	} else {
		words = ": " + words
	}
	status.Message = fmt.Sprintf("admission webhook %q denied the request", name) + words
	return &apierrors.StatusError{ErrStatus: status}
}
