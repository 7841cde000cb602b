// Package extender calls the extenders of a KubeSchedulerConfiguration over HTTP: programs outside the scheduler that
// filter and score nodes, choose victims, and bind pods.
//
// Guarantees: requests and answers are those of kube-scheduler, and a request ends within the extender's timeout, 5
// seconds by default. Nothing is cached or repeated here.
package extender

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Extender is a client of one extender.
type Extender struct {
	config configv1.Extender
	client *http.Client
}

// defaultTimeout is the timeout of extenders without a timeout in the configuration.
const defaultTimeout = 5 * time.Second

// mostAnswer is the maximum size of an answer. All nodes of a large cluster fit.
const mostAnswer = 1 << 28

// New returns an extender. It sends no request.
func New(config configv1.Extender) (*Extender, error) {
	c := &rest.Config{}
	if t := config.TLSConfig; t != nil {
		c.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if config.EnableHTTPS && len(c.CAFile) == 0 && len(c.CAData) == 0 {
		c.Insecure = true
	}
	transport, err := rest.TransportFor(c)
	if err != nil {
		return nil, fmt.Errorf("extender %s: %w", config.URLPrefix, err)
	}
	timeout := cmp.Or(config.HTTPTimeout.Duration, defaultTimeout)
	return &Extender{config: config, client: &http.Client{Transport: transport, Timeout: timeout}}, nil
}

// Name returns the extender's URL.
func (e *Extender) Name() string { return e.config.URLPrefix }

// Ignorable reports whether pods are placed without it while it does not answer.
func (e *Extender) Ignorable() bool { return e.config.Ignorable }

// Filters reports whether it filters or scores nodes.
func (e *Extender) Filters() bool { return e.config.FilterVerb != "" || e.config.PrioritizeVerb != "" }

// Binds reports whether it binds pods itself.
func (e *Extender) Binds() bool { return e.config.BindVerb != "" }

// Preempts reports whether it chooses victims.
func (e *Extender) Preempts() bool { return e.config.PreemptVerb != "" }

// Interested reports whether it wants to be called for a pod.
func (e *Extender) Interested(pod *corev1.Pod) bool {
	if len(e.config.ManagedResources) == 0 {
		return true
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers), func(c corev1.Container) bool {
		return slices.ContainsFunc(e.config.ManagedResources, func(r configv1.ExtenderManagedResource) bool {
			_, requested := c.Resources.Requests[corev1.ResourceName(r.Name)]
			_, limited := c.Resources.Limits[corev1.ResourceName(r.Name)]
			return requested || limited
		})
	})
}

// Answer is an extender's answer about nodes.
type Answer struct {
	Nodes []string // that remain
	// Refused has the reasons of nodes where preemption may help, Unresolvable those of nodes where it cannot.
	Refused, Unresolvable map[string]string
}

// Filter asks to which of the nodes a pod may go.
func (e *Extender) Filter(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (Answer, error) {
	if e.config.FilterVerb == "" {
		return Answer{Nodes: namesOf(nodes)}, nil
	}
	var result extenderv1.ExtenderFilterResult
	if err := e.send(ctx, e.config.FilterVerb, e.args(pod, nodes), &result); err != nil {
		return Answer{}, err
	}
	if result.Error != "" {
		return Answer{}, errors.New(result.Error)
	}
	answer := Answer{Refused: result.FailedNodes, Unresolvable: result.FailedAndUnresolvableNodes}
	switch {
	case e.config.NodeCacheCapable && result.NodeNames != nil:
		answer.Nodes = *result.NodeNames
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			answer.Nodes = append(answer.Nodes, result.Nodes.Items[i].Name)
		}
	}
	for _, name := range answer.Nodes {
		if !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == name }) {
			return Answer{}, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.Name(), name)
		}
	}
	return answer, nil
}

// Prioritize asks for scores of nodes. They are multiplied by the extender's weight.
func (e *Extender) Prioritize(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (map[string]int64, error) {
	if e.config.PrioritizeVerb == "" {
		return nil, nil
	}
	var result extenderv1.HostPriorityList
	if err := e.send(ctx, e.config.PrioritizeVerb, e.args(pod, nodes), &result); err != nil {
		return nil, err
	}
	scores := make(map[string]int64, len(result))
	for _, host := range result {
		scores[host.Host] = host.Score * e.config.Weight
	}
	return scores, nil
}

// Bind lets the extender bind a pod.
func (e *Extender) Bind(ctx context.Context, pod *corev1.Pod, node string) error {
	var result extenderv1.ExtenderBindingResult
	err := e.send(ctx, e.config.BindVerb, &extenderv1.ExtenderBindingArgs{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node,
	}, &result)
	if err == nil && result.Error != "" {
		err = errors.New(result.Error)
	}
	return err
}

func (e *Extender) args(pod *corev1.Pod, nodes []*corev1.Node) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: pod}
	if e.config.NodeCacheCapable {
		names := namesOf(nodes)
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{}
	for _, node := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *node)
	}
	return args
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}

// send posts a request and reads the answer.
func (e *Extender) send(ctx context.Context, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode a request for extender %s: %w", e.Name(), err)
	}
	url := strings.TrimRight(e.config.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, answer.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, mostAnswer)).Decode(result)
}
