package metricsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Root is the path of the group version.
const Root = "/apis/metrics.k8s.io/v1beta1"

// ServeHTTP serves the paths below [Root].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.route(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "as=Table") {
		answer = table(answer)
	}
	write(w, http.StatusOK, answer)
}

func (s *Server) route(r *http.Request) (any, error) {
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, Root), "/"), "/")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, apierrors.NewMethodNotSupported(metricsv1beta1.Resource(path[len(path)-1]), strings.ToLower(r.Method))
	}
	if path[0] == "" {
		return resources(), nil
	}
	namespace := ""
	if path[0] == "namespaces" && len(path) > 2 && path[2] == "pods" {
		namespace, path = path[1], path[2:]
	}
	switch ctx := r.Context(); {
	case len(path) == 1 && path[0] == "nodes":
		which, err := selected(r, "")
		if err != nil {
			return nil, err
		}
		return s.nodes(ctx, which)
	case len(path) == 2 && path[0] == "nodes":
		return s.node(ctx, path[1])
	case len(path) == 1 && path[0] == "pods":
		which, err := selected(r, namespace)
		if err != nil {
			return nil, err
		}
		return s.pods(ctx, which)
	case len(path) == 2 && path[0] == "pods" && namespace != "":
		return s.pod(ctx, namespace, path[1])
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, metricsv1beta1.Resource(""), "", "the server could not find the requested resource", 0, true)
}

// selected reads the selectors of a list.
func selected(r *http.Request, namespace string) (selection, error) {
	q := r.URL.Query()
	if q.Get("watch") == "true" || q.Get("watch") == "1" {
		return selection{}, apierrors.NewMethodNotSupported(metricsv1beta1.Resource("pods"), "watch")
	}
	options := metav1.ListOptions{LabelSelector: q.Get("labelSelector"), FieldSelector: q.Get("fieldSelector")}
	if _, err := labels.Parse(options.LabelSelector); err != nil {
		return selection{}, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	if _, err := fields.ParseSelector(options.FieldSelector); err != nil {
		return selection{}, apierrors.NewBadRequest(err.Error())
	}
	return selection{namespace, options}, nil
}

func resources() *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	}
}

func refuse(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	write(w, int(status.Code), &status)
}

func write(w http.ResponseWriter, code int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encoded) // an error means that the client has disconnected
}

// table converts an answer to a Table.
func table(answer any) any {
	t := &metav1.Table{
		TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
			{Name: "cpu", Type: "string", Description: "The CPU that is used"},
			{Name: "memory", Type: "string", Description: "The memory that is used"},
			{Name: "Window", Type: "string", Format: "duration", Description: "The time over which it was measured"},
		},
		Rows: []metav1.TableRow{},
	}
	row := func(meta metav1.ObjectMeta, use corev1.ResourceList, window metav1.Duration) {
		partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: meta}
		r := metav1.TableRow{Cells: []any{meta.Name, use.Cpu().String(), use.Memory().String(), window.Duration.String()}}
		r.Object.Object = partial
		t.Rows = append(t.Rows, r)
	}
	pod := func(m *metricsv1beta1.PodMetrics) { row(m.ObjectMeta, total(m), m.Window) }
	switch a := answer.(type) {
	case *metricsv1beta1.NodeMetricsList:
		for i := range a.Items {
			row(a.Items[i].ObjectMeta, a.Items[i].Usage, a.Items[i].Window)
		}
	case *metricsv1beta1.NodeMetrics:
		row(a.ObjectMeta, a.Usage, a.Window)
	case *metricsv1beta1.PodMetricsList:
		for i := range a.Items {
			pod(&a.Items[i])
		}
	case *metricsv1beta1.PodMetrics:
		pod(a)
	default:
		return answer
	}
	return t
}

// total adds up the containers of a pod.
func total(m *metricsv1beta1.PodMetrics) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range m.Containers {
		for name, q := range c.Usage {
			all := sum[name]
			all.Add(q)
			sum[name] = all
		}
	}
	return sum
}
