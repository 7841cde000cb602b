package apiserver

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/audit"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
)

// audited begins the request's audit event, before any decision. endAudit completes it.
func audited(c *call, next handler) error {
	if c.s.o.Audit == nil {
		return next(c)
	}
	record, err := c.s.o.Audit.Begin(c.Request, c.id, c.attributes(), c.s.o.Now())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if c.record = record; record == nil {
		return next(c)
	}
	switch {
	case c.longRunning:
		c.Writer.Started = record.Started
	case record.WantsResponse():
		c.copied = &audit.Body{}
		c.Writer.Copy = c.copied
	}
	return next(c)
}

// endAudit records how the request ended.
func (c *call) endAudit() {
	r := c.record
	if r == nil {
		return
	}
	if !c.returned {
		r.Panicked()
		return
	}
	var failure *metav1.Status
	if c.failure != nil {
		failure = status.Of(c.failure)
	}
	if c.copied != nil {
		if o := c.sent(); o != nil {
			r.Response(o)
		}
	}
	c.record = nil // another request may have it from now on
	r.Complete(c.Writer.Code, failure)
}

// unauthenticated records that a client could not be authenticated.
func (c *call) unauthenticated(err error) {
	if c.s.o.Audit == nil || !apierrors.IsUnauthorized(err) {
		return
	}
	c.s.o.Audit.Refuse(c.Request, c.id, c.attributes(), c.s.o.Now(), "Authentication failed, "+attempted(c.Request))
}

// attempted says which credentials a client tried to use.
func attempted(r *http.Request) string {
	var all []string
	if _, _, ok := r.BasicAuth(); ok {
		all = append(all, "basic")
	}
	if kind, _, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok && strings.EqualFold(kind, "bearer") {
		all = append(all, "bearer")
	}
	if strings.TrimSpace(r.URL.Query().Get("access_token")) != "" {
		all = append(all, "access_token")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		all = append(all, "x509")
	}
	if len(all) == 0 {
		return "no credentials provided"
	}
	return "attempted: " + strings.Join(all, ", ")
}

// decided records the authorization decision.
func (c *call) decided(v auth.Verdict) {
	if c.record == nil {
		return
	}
	why := v.Why()
	switch {
	case v.Allowed():
		c.record.Annotate("authorization.k8s.io/decision", "allow")
	case v.Err != nil:
		why = "internal error"
	default:
		c.record.Annotate("authorization.k8s.io/decision", "forbid")
	}
	c.record.Annotate("authorization.k8s.io/reason", why)
}

// received records the object of a request, with its defaults set.
func (c *call) received(o resource.Object, sent runtime.Object) {
	if c.record == nil {
		return
	}
	namespace := o.GetNamespace()
	if c.Kind != nil && !c.Kind.Namespaced {
		namespace = ""
	}
	c.record.Object(o.GetName(), namespace, string(o.GetUID()), o.GetResourceVersion())
	c.record.Request(sent)
}

// annotate returns the function by which admission annotates the audit event, or nil.
func (c *call) annotate() func(key, value string) {
	if c.record == nil {
		return nil
	}
	return c.record.Annotate
}

// sent returns the object of the response, as text or as an object that can be encoded as JSON.
func (c *call) sent() any {
	b, whole := c.copied.Bytes()
	h := c.Writer.Header()
	if whole && h.Get("Content-Encoding") == "gzip" {
		var err error
		if b, whole, err = unpacked(b); err != nil {
			return nil
		}
	}
	if !whole {
		c.record.Truncated()
		return nil
	}
	if message, ok := bytes.CutPrefix(b, []byte("k8s\x00")); ok {
		return c.fromProto(message)
	}
	switch form, _, _ := mime.ParseMediaType(h.Get("Content-Type")); form {
	case "application/json", "application/yaml":
		return b
	}
	return nil
}

// unpacked is the text of a response that was compressed, and whether that is all of it.
func unpacked(b []byte) (text []byte, whole bool, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, false, err
	}
	text, err = io.ReadAll(io.LimitReader(z, audit.LongestBody+1))
	return text, len(text) <= audit.LongestBody, err
}

// fromProto decodes a message: an object or a list of the request's kind, its metadata, or what an action answers.
func (c *call) fromProto(b []byte) any {
	var u runtime.Unknown
	if u.Unmarshal(b) != nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(u.APIVersion, u.Kind)
	o, ok := c.messageOf(gvk).(protoMessage)
	if !ok || o.Unmarshal(u.Raw) != nil {
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	return o
}

// protoMessage is an object that can be read from protobuf.
type protoMessage interface {
	runtime.Object
	Unmarshal([]byte) error
}

// messageOf makes an object of a kind; nil if nobody knows the kind.
func (c *call) messageOf(gvk schema.GroupVersionKind) runtime.Object {
	switch {
	case gvk.Kind == "Status":
		return &metav1.Status{}
	case gvk.Kind == "PartialObjectMetadata":
		return &metav1.PartialObjectMetadata{}
	case gvk.Kind == "PartialObjectMetadataList":
		return &metav1.PartialObjectMetadataList{}
	}
	if o, err := scheme.Scheme.New(gvk); err == nil {
		return o
	}
	if c.Face != nil && gvk == c.Face.GroupVersionKind {
		return c.Face.New()
	}
	return nil
}
