package apiserver

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// sent returns the object of the response, as JSON or as an object that can be encoded as JSON.
func (c *call) sent() any {
	b, whole := c.copied.Bytes()
	if !whole {
		c.record.Truncated()
		return nil
	}
	h := c.Writer.Header()
	if h.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil
		}
		if b, err = io.ReadAll(io.LimitReader(z, 16<<20)); err != nil {
			return nil
		}
	}
	if bytes.HasPrefix(b, []byte("k8s\x00")) {
		return c.fromProto(b[4:])
	}
	if strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return b
	}
	return nil
}

// fromProto decodes a message of the request's kind, or a Status. Lists in protobuf are not recorded.
func (c *call) fromProto(b []byte) any {
	var u runtime.Unknown
	if u.Unmarshal(b) != nil {
		return nil
	}
	var o runtime.Object
	switch {
	case u.Kind == "Status":
		o = &metav1.Status{}
	case c.Face != nil && u.Kind == c.Face.Kind:
		o = c.Face.New()
	default:
		return nil
	}
	m, ok := o.(interface{ Unmarshal([]byte) error })
	if !ok || m.Unmarshal(u.Raw) != nil {
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(u.APIVersion, u.Kind))
	return o
}
