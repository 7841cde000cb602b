package podautoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// figure is a pod's value, in thousandths.
type figure struct {
	value  int64
	at     time.Time
	window time.Duration
}

// podMetrics is the part of PodMetrics (metrics.k8s.io) that is used here.
type podMetrics struct {
	Metadata   struct{ Name string }
	Timestamp  metav1.Time
	Window     metav1.Duration
	Containers []struct {
		Name  string
		Usage corev1.ResourceList
	}
}

var podMetricsResource = schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}

// resourceFigures returns the resource usage by pod: of all containers, or of one.
func (e *evaluation) resourceFigures(ctx context.Context, what corev1.ResourceName, pods labels.Selector, container string) (map[string]figure, error) {
	list, err := e.clients.Dynamic.Resource(podMetricsResource).Namespace(e.key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: pods.String()})
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %v", err)
	}
	if len(list.Items) == 0 {
		return nil, errors.New("no metrics returned from resource metrics API")
	}
	all := map[string]figure{}
	for i := range list.Items {
		var m podMetrics
		encoded, err := list.Items[i].MarshalJSON()
		if err == nil {
			err = json.Unmarshal(encoded, &m)
		}
		if err != nil {
			return nil, fmt.Errorf("unable to fetch metrics from resource metrics API: %v", err)
		}
		if value, ok := m.use(what, container); ok {
			all[m.Metadata.Name] = figure{value, m.Timestamp.Time, m.Window.Duration}
		}
	}
	return all, nil
}

// use returns a pod's usage. known is false if one of its containers has no value.
func (m *podMetrics) use(what corev1.ResourceName, container string) (total int64, known bool) {
	for _, c := range m.Containers {
		if container != "" && c.Name != container {
			continue
		}
		q, ok := c.Usage[what]
		if !ok {
			return 0, false
		}
		total, known = total+q.MilliValue(), true
	}
	return total, known
}

// values is a list of custom or external metrics.
type values struct {
	Items []struct {
		DescribedObject struct{ Name string }
		Timestamp       metav1.Time
		Window          *int64 `json:"windowSeconds"`
		Value           resource.Quantity
	}
}

// defaultWindow is the window of a custom metric without one.
const defaultWindow = time.Minute

// custom reads custom.metrics.k8s.io in its newest available version.
func (e *evaluation) custom(ctx context.Context, metric *metav1.LabelSelector, pods labels.Selector, path ...string) (*values, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric)
	if err != nil {
		return nil, err
	}
	var all *values
	for _, version := range []string{"v1beta2", "v1beta1"} {
		request := e.clients.Kube.CoreV1().RESTClient().Get().AbsPath(append([]string{"/apis/custom.metrics.k8s.io", version, "namespaces", e.key.Namespace}, path...)...)
		if pods != nil {
			request = request.Param("labelSelector", pods.String())
		}
		if metric != nil {
			request = request.Param("metricLabelSelector", selector.String())
		}
		all = &values{}
		var body []byte
		if body, err = request.SetHeader("Accept", "application/json").DoRaw(ctx); err == nil {
			err = json.Unmarshal(body, all)
		}
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	if apierrors.IsNotFound(err) && e.unregistered(ctx) {
		err = errors.New("no custom metrics API (custom.metrics.k8s.io) registered")
	}
	if err != nil {
		return nil, fmt.Errorf("unable to fetch metrics from custom metrics API: %v", err)
	}
	if len(all.Items) == 0 {
		return nil, errors.New("no metrics returned from custom metrics API")
	}
	return all, nil
}

// unregistered reports that nobody serves custom metrics.
func (e *evaluation) unregistered(ctx context.Context) bool {
	return apierrors.IsNotFound(e.clients.Kube.CoreV1().RESTClient().Get().AbsPath("/apis/custom.metrics.k8s.io").Do(ctx).Error())
}

// podFigures returns a custom metric by pod.
func (e *evaluation) podFigures(ctx context.Context, metric *autoscalingv2.MetricIdentifier, pods labels.Selector) (map[string]figure, error) {
	list, err := e.custom(ctx, metric.Selector, pods, "pods", "*", metric.Name)
	if err != nil {
		return nil, err
	}
	all := map[string]figure{}
	for _, v := range list.Items {
		f := figure{v.Value.MilliValue(), v.Timestamp.Time, defaultWindow}
		if v.Window != nil {
			f.window = time.Duration(*v.Window) * time.Second
		}
		all[v.DescribedObject.Name] = f
	}
	return all, nil
}

// objectFigure returns a custom metric of one object.
func (e *evaluation) objectFigure(ctx context.Context, metric *autoscalingv2.MetricIdentifier, object *autoscalingv2.CrossVersionObjectReference) (int64, error) {
	path := []string{"metrics", metric.Name}
	if object.Kind != "Namespace" {
		gv, err := schema.ParseGroupVersion(object.APIVersion)
		if err != nil {
			return 0, err
		}
		gvr, err := e.resourceOf(schema.GroupKind{Group: gv.Group, Kind: object.Kind}, gv.Version)
		if err != nil {
			return 0, err
		}
		path = []string{gvr.GroupResource().String(), object.Name, metric.Name}
	}
	list, err := e.custom(ctx, metric.Selector, nil, path...)
	if err != nil {
		return 0, err
	}
	return list.Items[0].Value.MilliValue(), nil
}

// externalFigure returns the sum of an external metric's values.
func (e *evaluation) externalFigure(ctx context.Context, metric *autoscalingv2.MetricIdentifier) (int64, error) {
	selector, err := metav1.LabelSelectorAsSelector(metric.Selector)
	if err != nil {
		return 0, err
	}
	o := metav1.ListOptions{}
	if metric.Selector != nil {
		o.LabelSelector = selector.String()
	}
	list := &values{}
	resource := schema.GroupVersionResource{Group: "external.metrics.k8s.io", Version: "v1beta1", Resource: metric.Name}
	answer, err := e.clients.Dynamic.Resource(resource).Namespace(e.key.Namespace).List(ctx, o)
	if err == nil {
		var body []byte
		if body, err = answer.MarshalJSON(); err == nil {
			err = json.Unmarshal(body, list)
		}
	}
	switch {
	case err != nil:
		err = fmt.Errorf("unable to fetch metrics from external metrics API: %v", err)
	case len(list.Items) == 0:
		err = errors.New("no metrics returned from external metrics API")
	}
	if err != nil {
		return 0, fmt.Errorf("unable to get external metric %s/%s/%+v: %s", e.key.Namespace, metric.Name, metric.Selector, err)
	}
	var total int64
	for _, v := range list.Items {
		total += v.Value.MilliValue()
	}
	return total, nil
}
