package connections

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// boolean parses a flag as Kubernetes does: every value but "false" and "0" is true.
func boolean(q url.Values, name string) bool {
	if !q.Has(name) {
		return false
	}
	value := strings.ToLower(q.Get(name))
	return value != "false" && value != "0"
}

// integer parses an optional number, and keeps the first error.
func integer(q url.Values, name string, err *error) *int64 {
	text := q.Get(name)
	if text == "" || *err != nil {
		return nil
	}
	n, e := strconv.ParseInt(text, 10, 64)
	if e != nil {
		*err = apierrors.NewBadRequest(e.Error())
		return nil
	}
	return &n
}

func logOptions(q url.Values, pod string) (*corev1.PodLogOptions, error) {
	var err error
	o := &corev1.PodLogOptions{
		Container: q.Get("container"), Follow: boolean(q, "follow"), Previous: boolean(q, "previous"), Timestamps: boolean(q, "timestamps"),
		SinceSeconds: integer(q, "sinceSeconds", &err), TailLines: integer(q, "tailLines", &err), LimitBytes: integer(q, "limitBytes", &err),
		InsecureSkipTLSVerifyBackend: boolean(q, "insecureSkipTLSVerifyBackend"),
	}
	if err != nil {
		return nil, err
	}
	if text := q.Get("sinceTime"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		o.SinceTime = &metav1.Time{Time: since}
	}
	if q.Has("stream") {
		stream := q.Get("stream")
		o.Stream = &stream
	}
	if errs := checkLogOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, pod, errs)
	}
	return o, nil
}

func checkLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream == nil {
		return errs
	}
	switch *o.Stream {
	case corev1.LogStreamAll:
		return errs
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream, []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}))
	}
	if o.TailLines != nil {
		errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return errs
}

// logQuery returns the query of a log request to the kubelet.
func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	setFlag(q, "follow", o.Follow, "true")
	setFlag(q, "previous", o.Previous, "true")
	setFlag(q, "timestamps", o.Timestamps, "true")
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil {
		q.Set("stream", *o.Stream)
	}
	return q
}

func setFlag(q url.Values, name string, on bool, value string) {
	if on {
		q.Set(name, value)
	}
}

// streamQuery returns the query that selects streams, with the kubelet's own parameter names.
func streamQuery(stdin, stdout, stderr, tty bool) url.Values {
	q := url.Values{}
	setFlag(q, "input", stdin, "1")
	setFlag(q, "output", stdout, "1")
	setFlag(q, "error", stderr, "1")
	setFlag(q, "tty", tty, "1")
	return q
}
