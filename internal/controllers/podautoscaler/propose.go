package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/loop"
)

// proposal is the result of one metric.
type proposal struct {
	replicas int32
	metric   string
	status   autoscalingv2.MetricStatus
}

// failure is a metric that could not be read.
type failure struct {
	reason string // of the condition and the event
	cause  error  // their message
	err    error  // the returned error
}

// propose evaluates all metrics. The highest proposal counts; if some metrics fail, it may only be higher than the
// current size. It returns -1 and an error if there is no result.
func (e *evaluation) propose(ctx context.Context, scale *autoscalingv1.Scale) (int32, string, error) {
	selector, err := e.selector(ctx, scale.Status.Selector)
	if err != nil {
		return -1, "", err
	}
	specs := e.hpa.Spec.Metrics
	e.metrics = make([]autoscalingv2.MetricStatus, len(specs))
	best, failed, first := proposal{}, 0, (*failure)(nil)
	for i := range specs {
		began := time.Now()
		p, f := e.ask(ctx, &specs[i], scale, selector)
		if f != nil {
			e.Metrics.Computed(specs[i].Type, NoAction, failureOf(f.cause), time.Since(began))
			e.warn(f.reason, f.cause.Error())
			if failed++; first == nil {
				first = f
			}
			continue
		}
		e.Metrics.Computed(specs[i].Type, actionOf(scale.Spec.Replicas, p.replicas), NoFailure, time.Since(began))
		e.metrics[i] = p.status
		if best.replicas == 0 || p.replicas > best.replicas {
			best = p
		}
	}
	if first != nil {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", failed, len(specs), first.err)
	}
	if failed >= len(specs) || failed > 0 && best.replicas < scale.Spec.Replicas {
		if first != nil {
			e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, first.reason, fmt.Sprintf("the HPA was unable to compute the replica count: %v", first.cause))
		}
		return -1, "", err
	}
	e.condition(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+best.metric)
	return best.replicas, best.metric, err
}

// selector returns the selector of the workload's pods, unless another autoscaler selects some of them.
func (e *evaluation) selector(ctx context.Context, text string) (labels.Selector, error) {
	if text == "" {
		e.warn("SelectorRequired", "selector is required")
		e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "InvalidSelector", "the HPA target's scale is missing a selector")
		return nil, wrong("selector is required")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		err = specError{fmt.Errorf("couldn't convert selector into a corresponding internal selector object: %v", err)}
		e.warn("InvalidSelector", err.Error())
		e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "InvalidSelector", err.Error())
		return nil, err
	}
	others := e.register(selector)
	if len(others) == 0 {
		return selector, nil
	}
	pods, err := e.pods(ctx, selector)
	if err != nil && !errors.Is(err, errNoPods) {
		return nil, err
	}
	var rivals []loop.Key
	for name, other := range others {
		if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return other.Matches(labels.Set(p.Labels)) }) {
			rivals = append(rivals, loop.Key{Namespace: e.key.Namespace, Name: name})
		}
	}
	if len(rivals) == 0 {
		return selector, nil
	}
	rivals = append(rivals, e.key)
	slices.SortFunc(rivals, loop.Key.Compare)
	err = specError{fmt.Errorf("pods by selector %v are controlled by multiple HPAs: %v", text, rivals)}
	e.warn("AmbiguousSelector", err.Error())
	e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "AmbiguousSelector", err.Error())
	return nil, err
}

// register stores an autoscaler's selector, and returns those of the others in its namespace.
func (e *evaluation) register(selector labels.Selector) map[string]labels.Selector {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.selects[e.key.Namespace]
	if all == nil {
		all = map[string]labels.Selector{}
		e.selects[e.key.Namespace] = all
	}
	all[e.key.Name] = selector
	others := map[string]labels.Selector{}
	for name, other := range all {
		if name != e.key.Name {
			others[name] = other
		}
	}
	return others
}

// ask evaluates one metric.
func (e *evaluation) ask(ctx context.Context, spec *autoscalingv2.MetricSpec, scale *autoscalingv1.Scale, selector labels.Selector) (proposal, *failure) {
	p := proposal{status: autoscalingv2.MetricStatus{Type: spec.Type}}
	var reason, what string
	var err error
	switch spec.Type {
	case autoscalingv2.ResourceMetricSourceType:
		s := &autoscalingv2.ResourceMetricStatus{Name: spec.Resource.Name}
		p.status.Resource = s
		reason, what = "FailedGetResourceMetric", fmt.Sprintf("failed to get %s resource metric value", s.Name)
		p.replicas, p.metric, err = e.askResource(ctx, scale, selector, s.Name, "", &spec.Resource.Target, &s.Current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		c := spec.ContainerResource
		s := &autoscalingv2.ContainerResourceMetricStatus{Name: c.Name, Container: c.Container}
		p.status.ContainerResource = s
		reason, what = "FailedGetContainerResourceMetric", fmt.Sprintf("failed to get %s container metric value", c.Container)
		p.replicas, p.metric, err = e.askResource(ctx, scale, selector, c.Name, c.Container, &c.Target, &s.Current)
	case autoscalingv2.PodsMetricSourceType:
		s := &autoscalingv2.PodsMetricStatus{Metric: spec.Pods.Metric}
		p.status.Pods, p.metric = s, "pods metric "+s.Metric.Name
		reason, what = "FailedGetPodsMetric", "failed to get pods metric value"
		p.replicas, err = e.askPods(ctx, scale, selector, spec.Pods, &s.Current)
	case autoscalingv2.ObjectMetricSourceType:
		s := &autoscalingv2.ObjectMetricStatus{DescribedObject: spec.Object.DescribedObject, Metric: spec.Object.Metric}
		p.status.Object = s
		reason, what = "FailedGetObjectMetric", "failed to get object metric value"
		p.replicas, p.metric, err = e.askObject(ctx, scale, selector, spec.Object, &s.Current)
	case autoscalingv2.ExternalMetricSourceType:
		s := &autoscalingv2.ExternalMetricStatus{Metric: spec.External.Metric}
		p.status.External, p.metric = s, fmt.Sprintf("external metric %s(%+v)", s.Metric.Name, s.Metric.Selector)
		reason, what = "FailedGetExternalMetric", fmt.Sprintf("failed to get %s external metric value: failed to get external metric %[1]s", s.Metric.Name)
		if spec.External.Target.AverageValue != nil {
			what = fmt.Sprintf("failed to get %s external metric value: failed to get %[1]s external metric", s.Metric.Name)
		}
		p.replicas, err = e.askExternal(ctx, scale, selector, spec.External, &s.Current)
	default:
		err = specError{fmt.Errorf("unknown metric source type %q", string(spec.Type))}
		return p, &failure{"InvalidMetricSourceType", err, err}
	}
	if err != nil {
		return p, &failure{reason, err, fmt.Errorf("%s: %w", what, err)}
	}
	return p, nil
}

func milli(value int64) *resource.Quantity {
	return resource.NewMilliQuantity(value, resource.DecimalSI)
}

func (e *evaluation) askResource(ctx context.Context, scale *autoscalingv1.Scale, selector labels.Selector,
	what corev1.ResourceName, container string, target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) (int32, string, error) {
	kind := "utilization"
	switch {
	case target.AverageValue != nil:
		kind = "usage"
	case target.AverageUtilization == nil:
		return 0, "", wrong("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	failed := func(err error) (int32, string, error) {
		return 0, "", fmt.Errorf("failed to get %s %s: %v", what, kind, err)
	}
	figures, err := e.resourceFigures(ctx, what, selector, container)
	if err != nil {
		return failed(fmt.Errorf("unable to get metrics for resource %s: %v", what, err))
	}
	pods, err := e.pods(ctx, selector)
	if err != nil {
		return failed(err)
	}
	if target.AverageValue != nil {
		replicas, average, err := e.byAverage(scale.Spec.Replicas, pods, figures, what == corev1.ResourceCPU, target.AverageValue.MilliValue())
		if err != nil {
			return failed(err)
		}
		current.AverageValue = milli(average)
		return replicas, fmt.Sprintf("%s resource", what), nil
	}
	replicas, utilization, average, err := e.byUtilization(scale.Spec.Replicas, pods, figures, what, container, *target.AverageUtilization)
	if err != nil {
		return failed(err)
	}
	current.AverageUtilization, current.AverageValue = &utilization, milli(average)
	if container != "" {
		return replicas, fmt.Sprintf("%s container resource utilization (percentage of request)", what), nil
	}
	return replicas, fmt.Sprintf("%s resource utilization (percentage of request)", what), nil
}

func (e *evaluation) askPods(ctx context.Context, scale *autoscalingv1.Scale, selector labels.Selector,
	source *autoscalingv2.PodsMetricSource, current *autoscalingv2.MetricValueStatus) (int32, error) {
	if source.Target.AverageValue == nil {
		return 0, wrong("invalid pods metric source: no average value target was set")
	}
	figures, err := e.podFigures(ctx, &source.Metric, selector)
	if err != nil {
		return 0, fmt.Errorf("unable to get metric %s: %v", source.Metric.Name, err)
	}
	pods, err := e.pods(ctx, selector)
	if err != nil {
		return 0, err
	}
	replicas, average, err := e.byAverage(scale.Spec.Replicas, pods, figures, false, source.Target.AverageValue.MilliValue())
	current.AverageValue = milli(average)
	return replicas, err
}

func (e *evaluation) askObject(ctx context.Context, scale *autoscalingv1.Scale, selector labels.Selector,
	source *autoscalingv2.ObjectMetricSource, current *autoscalingv2.MetricValueStatus) (int32, string, error) {
	t, o := &source.Target, &source.DescribedObject
	byValue := t.Type == autoscalingv2.ValueMetricType && t.Value != nil
	byAverage := t.Type == autoscalingv2.AverageValueMetricType && t.AverageValue != nil
	if !byValue && !byAverage {
		return 0, "", wrong("invalid object metric source: neither a value target nor an average value target was set")
	}
	usage, err := e.objectFigure(ctx, &source.Metric, o)
	if err != nil {
		return 0, "", fmt.Errorf("unable to get metric %s: %v on %s %s/%s", source.Metric.Name, o.Kind, e.key.Namespace, o.Name, err)
	}
	if byAverage {
		replicas, share := e.byShare(scale.Status.Replicas, usage, t.AverageValue.MilliValue())
		current.AverageValue = milli(share)
		return replicas, fmt.Sprintf("external metric %s(%+v)", source.Metric.Name, source.Metric.Selector), nil
	}
	current.Value = milli(usage)
	replicas, err := e.byRatio(ctx, scale.Spec.Replicas, float64(usage)/float64(t.Value.MilliValue()), selector)
	return replicas, fmt.Sprintf("%s metric %s", o.Kind, source.Metric.Name), err
}

func (e *evaluation) askExternal(ctx context.Context, scale *autoscalingv1.Scale, selector labels.Selector,
	source *autoscalingv2.ExternalMetricSource, current *autoscalingv2.MetricValueStatus) (int32, error) {
	t := &source.Target
	if t.AverageValue == nil && t.Value == nil {
		return 0, wrong("invalid external metric source: neither a value target nor an average value target was set")
	}
	usage, err := e.externalFigure(ctx, &source.Metric)
	if err != nil {
		return 0, err
	}
	if t.AverageValue != nil {
		replicas, share := e.byShare(scale.Status.Replicas, usage, t.AverageValue.MilliValue())
		current.AverageValue = milli(share)
		return replicas, nil
	}
	current.Value = milli(usage)
	return e.byRatio(ctx, scale.Spec.Replicas, float64(usage)/float64(t.Value.MilliValue()), selector)
}
