package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// mostPods is how many pods that do not run are read.
const mostPods = 500

// source is a cluster that is asked.
type source struct {
	url    string
	client *rest.RESTClient
}

func connect(config *rest.Config) (*source, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Version: "v1"}, "/"
	client, err := rest.RESTClientFor(config)
	return &source{url: config.Host, client: client}, err
}

// get returns the answer at a path. The error is what the server says.
func (s *source) get(ctx context.Context, path string, query ...string) ([]byte, error) {
	r := s.client.Get().AbsPath(path).SetHeader("Accept", "application/json, text/plain, */*")
	for i := 0; i < len(query); i += 2 {
		r = r.Param(query[i], query[i+1])
	}
	answer := r.Do(ctx)
	b, err := answer.Raw()
	if refused := answer.Error(); err != nil && refused != nil { // Raw has an error without the server's words
		err = refused
	}
	return b, err
}

// list reads a list of objects.
func (s *source) list(ctx context.Context, path string, into any, query ...string) error {
	b, err := s.get(ctx, path, query...)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// read asks for everything. It fails if nothing answers.
func (s *source) read(ctx context.Context, now time.Time) (*report, error) {
	r := &report{url: s.url, now: now}
	var v version.Info
	if err := s.list(ctx, "/version", &v); err != nil {
		return nil, fmt.Errorf("no cluster answers at %s: %w", s.url, err)
	}
	r.version = v.GitVersion
	if err := s.readReadiness(ctx, r); err != nil {
		return nil, err
	}
	for what, part := range map[string]func(context.Context, *report) error{
		"metrics": s.readMetrics, "nodes": s.readNodes, "pods": s.readPods, "API services": s.readServices,
	} {
		if err := part(ctx, r); err != nil {
			r.unknown = append(r.unknown, fmt.Sprintf("%s: %v", what, err))
		}
	}
	return r, nil
}

// readReadiness names the checks that fail. The client keeps no answers that say so: this goes around it.
func (s *source) readReadiness(ctx context.Context, r *report) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.Get().AbsPath("/readyz").Param("verbose", "").URL().String(), nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if r.ready = answer.StatusCode == http.StatusOK; r.ready {
		return nil
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if name, failed := strings.CutPrefix(string(bytes.TrimSpace(line)), "[-]"); failed {
			r.wrong = append(r.wrong, "not ready: "+name)
		}
	}
	if len(r.wrong) == 0 {
		r.wrong = append(r.wrong, "not ready: "+answer.Status)
	}
	return nil
}

func (s *source) readMetrics(ctx context.Context, r *report) error {
	b, err := s.get(ctx, "/metrics")
	if err != nil {
		return err
	}
	r.measured, err = measure(b)
	if n := r.measured.unreadable; n > 0 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s cannot be read: lists and watches omit them", count(n, "stored object")))
	}
	return err
}

func (s *source) readNodes(ctx context.Context, r *report) error {
	var nodes corev1.NodeList
	if err := s.list(ctx, "/api/v1/nodes", &nodes, "resourceVersion", "0"); err != nil {
		return err
	}
	r.nodes = len(nodes.Items)
	for i := range nodes.Items {
		n := &nodes.Items[i]
		why := "it has not said that it is"
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				why = c.Message
				if c.Status == corev1.ConditionTrue {
					why = ""
				}
			}
		}
		if why == "" {
			r.readyNodes++
			continue
		}
		r.wrong = append(r.wrong, fmt.Sprintf("node %s is not ready: %s", n.Name, why))
	}
	return nil
}

func (s *source) readPods(ctx context.Context, r *report) error {
	var pods corev1.PodList
	err := s.list(ctx, "/api/v1/pods", &pods, "fieldSelector", "status.phase!=Running,status.phase!=Succeeded", "limit", fmt.Sprint(mostPods))
	if err != nil {
		return err
	}
	phases := map[corev1.PodPhase][]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		phases[p.Status.Phase] = append(phases[p.Status.Phase], p.Namespace+"/"+p.Name)
	}
	more := ""
	if pods.Continue != "" {
		more = " and more"
	}
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodFailed, corev1.PodUnknown} {
		if names := phases[phase]; len(names) > 0 {
			r.wrong = append(r.wrong, fmt.Sprintf("%s%s %s: %s", count(float64(len(names)), "pod"), more, strings.ToLower(string(phase)), some(names)))
		}
	}
	return nil
}

// readServices names the extension API servers that do not answer.
func (s *source) readServices(ctx context.Context, r *report) error {
	var services apiregistration.APIServiceList
	if err := s.list(ctx, "/apis/apiregistration.k8s.io/v1/apiservices", &services); err != nil {
		return err
	}
	for i := range services.Items {
		for _, c := range services.Items[i].Status.Conditions {
			if c.Type == apiregistration.Available && c.Status != apiregistration.ConditionStatus(metav1.ConditionTrue) {
				r.wrong = append(r.wrong, fmt.Sprintf("API service %s is not available: %s", services.Items[i].Name, c.Message))
			}
		}
	}
	return nil
}
