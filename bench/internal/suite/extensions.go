package suite

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/internal/server/pki"
)

// extensionCases create config maps, one after the other: without webhooks and policies, with one validating webhook on
// this machine, with a policy of three expressions, and with a hundred webhooks and a hundred policies that do not
// match.
func extensionCases() []Case {
	const fixture = "extensions"
	return []Case{
		{Name: "extensions/none", Op: "config map", Fixture: fixture, Run: extended(nil)},
		{Name: "extensions/webhook", Op: "config map", Fixture: fixture, Run: extended(oneWebhook)},
		{Name: "extensions/policy", Op: "config map", Fixture: fixture, Run: extended(onePolicy)},
		{Name: "extensions/others", Op: "config map", Fixture: fixture, Run: extended(hundredOthers)},
	}
}

const registration = "/apis/admissionregistration.k8s.io/v1/"

// configured is what a case creates in the server: objects by their resource. acts reports whether the answer to a
// create shows that they are in effect.
type configured struct {
	kinds  []string
	bodies []string
	acts   func(err error) bool
}

// extended creates config maps while the server has the configuration that set returns.
func extended(set func(hook *hook) configured) runFunc {
	return func(ctx context.Context, b *Bench) error {
		h, err := newHook()
		if err != nil {
			return err
		}
		defer h.close()
		c, err := b.Server.Dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		var has configured
		if set != nil {
			has = set(h)
		}
		names := make([]string, len(has.bodies))
		defer func() {
			for i, name := range names {
				if name != "" {
					_, _ = c.Expect(ctx, h2.Request{Method: "DELETE", Path: registration + has.kinds[i] + "/" + name, Header: acceptJSON}) // a failure would show in the next case
				}
			}
		}()
		for i, body := range has.bodies {
			name := fmt.Sprintf("bench-%d", i)
			body = strings.Replace(body, "{NAME}", name, -1)
			if _, err := c.Expect(ctx, h2.Request{Method: "POST", Path: registration + has.kinds[i], Header: sendJSON, Body: []byte(body)}); err != nil {
				return err
			}
			names[i] = name
		}
		if err := settled(ctx, c, has.acts); err != nil {
			return err
		}
		h.calls.Store(0)
		t := objects.ConfigMap(storedSmall, 1)
		err = b.loop(ctx, 1, func(ctx context.Context, u iteration) error {
			_, err := u.conn.Size(ctx, h2.Request{Method: "POST", Path: configMaps, Header: sendJSON, Body: t.With(objects.Fill{Name: objects.Name('x', u.id())})})
			return err
		})
		if err == nil && set != nil && h.calls.Load() > 0 {
			b.Own("calls", float64(h.calls.Load()))
		}
		return err
	}
}

// settled waits until the configuration is in effect. A kube-apiserver takes a while.
func settled(ctx context.Context, c *h2.Conn, acts func(error) bool) error {
	if acts == nil {
		acts = func(error) bool { return true }
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		body := fmt.Sprintf(`{"metadata":{"name":"forbidden-%d"}}`, iteration{}.id())
		_, err := c.Expect(ctx, h2.Request{Method: "POST", Path: configMaps + "?dryRun=All", Header: sendJSON, Body: []byte(body)})
		if acts(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("what was configured does not act after a minute")
}

func refused(err error) bool { return err != nil }

func rules(resource string) string {
	return fmt.Sprintf(`[{"apiGroups":[""],"apiVersions":["v1"],"resources":[%q],"operations":["CREATE","UPDATE"]}]`, resource)
}

func (h *hook) configuration(resource string) string {
	return fmt.Sprintf(`{"metadata":{"name":"{NAME}"},"webhooks":[{"name":"{NAME}.example.com","sideEffects":"None",
		"admissionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%s},"rules":%s}]}`,
		h.url, encodedBytes(h.authority), rules(resource))
}

func encodedBytes(b []byte) string {
	text, _ := json.Marshal(b) // bytes can always be encoded
	return string(text)
}

func oneWebhook(h *hook) configured {
	return configured{[]string{"validatingwebhookconfigurations"}, []string{h.configuration("configmaps")}, refused}
}

const (
	policyKind  = "validatingadmissionpolicies"
	bindingKind = "validatingadmissionpolicybindings"
	binding     = `{"metadata":{"name":"{NAME}"},"spec":{"policyName":%q,"validationActions":["Deny"]}}`
)

func policy(resource string, expressions ...string) string {
	var all []string
	for _, e := range expressions {
		all = append(all, fmt.Sprintf(`{"expression":%q}`, e))
	}
	return fmt.Sprintf(`{"metadata":{"name":"{NAME}"},"spec":{"matchConstraints":{"resourceRules":%s},"validations":[%s]}}`, rules(resource), strings.Join(all, ","))
}

func onePolicy(*hook) configured {
	return configured{[]string{policyKind, bindingKind}, []string{
		policy("configmaps", `!object.metadata.name.startsWith("forbidden")`, `object.data.size() < 100`, `!has(object.metadata.labels) || object.metadata.labels.size() < 10`),
		fmt.Sprintf(binding, "bench-0"),
	}, refused}
}

func hundredOthers(h *hook) configured {
	out := configured{}
	for i := range 100 {
		out.kinds = append(out.kinds, "validatingwebhookconfigurations", policyKind, bindingKind)
		out.bodies = append(out.bodies, h.configuration("secrets"), policy("secrets", "true"), fmt.Sprintf(binding, fmt.Sprintf("bench-%d", 3*i+1)))
	}
	return out
}

// hook is a webhook in this process. It denies the object named forbidden, and allows everything else.
type hook struct {
	server    *http.Server
	ended     chan struct{}
	url       string
	authority []byte
	calls     atomic.Int64
}

func newHook() (*hook, error) {
	keys, err := pki.Open("", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(keys.Serving.CertPEM, keys.Serving.KeyPEM)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hook{ended: make(chan struct{}), url: "https://" + l.Addr().String() + "/", authority: keys.Authority.CertPEM}
	h.server = &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(h.ended)
		_ = h.server.ServeTLS(l, "", "") // it returns after close
	}()
	return h, nil
}

func (h *hook) close() {
	h.server.Close()
	<-h.ended
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.calls.Add(1)
	var review struct {
		Request struct {
			UID  string `json:"uid"`
			Name string `json:"name"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":%t}}`, review.Request.UID, !strings.HasPrefix(review.Request.Name, "forbidden"))
}
