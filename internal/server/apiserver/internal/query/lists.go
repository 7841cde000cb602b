package query

import (
	"fmt"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// List is the parsed query of a list or a watch.
type List struct {
	Labels         labels.Selector
	Fields         fields.Selector
	watch          bool
	Bookmarks      bool
	InitialEvents  *bool
	Fresh          registry.Freshness
	versionGiven   bool
	match          metav1.ResourceVersionMatch
	TimeoutSeconds *int64
	Limit          int
	Continue       string
}

func ParseList(q url.Values, face *resource.Face) (List, error) {
	var o List
	var err error
	fail := func(e error) {
		if err == nil && e != nil {
			err = apierrors.NewBadRequest(e.Error())
		}
	}
	o.watch = Bool(q, "watch")
	o.Bookmarks = Bool(q, "allowWatchBookmarks")
	if q.Has("sendInitialEvents") {
		v := Bool(q, "sendInitialEvents")
		o.InitialEvents = &v
	}
	limit, e := integer(q, "limit")
	fail(e)
	if limit != nil && *limit > 0 {
		o.Limit = int(*limit)
	}
	o.TimeoutSeconds, e = integer(q, "timeoutSeconds")
	fail(e)
	o.Labels, e = labels.Parse(q.Get("labelSelector"))
	fail(e)
	o.Fields, e = fields.ParseSelector(q.Get("fieldSelector"))
	fail(e)
	if err != nil {
		return o, err
	}
	for _, r := range o.Fields.Requirements() {
		if !registry.Supports(face, r.Field) {
			return o, unsupportedField(face, r.Field)
		}
	}
	o.Continue = q.Get("continue")
	o.match = metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	return o, o.ParseVersion(q.Get("resourceVersion"))
}

// unsupportedField returns the error for a field that the face's field selectors do not support.
func unsupportedField(face *resource.Face, label string) error {
	switch kind := face.Of; {
	case kind.Resource == "resourceslices":
		return apierrors.NewBadRequest(fmt.Sprintf("field label not supported for %s: %s", face.GroupVersionKind, label))
	case kind.Resource == "jobs" && kind.Group == "batch":
		return apierrors.NewBadRequest(fmt.Sprintf("field label %q not supported for Job", label))
	case len(kind.Fields) > 0, kind.Custom:
		return apierrors.NewBadRequest("field label not supported: " + label)
	}
	return apierrors.NewBadRequest(fmt.Sprintf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, label))
}

func (l *List) ParseVersion(version string) error {
	l.versionGiven = version != ""
	if err := l.checkMatch(version); err != nil {
		return err
	}
	n, err := strconv.ParseUint(version, 10, 63)
	switch {
	case version == "":
	case err != nil:
		return apierrors.NewBadRequest("invalid resource version: " + field.Invalid(field.NewPath("resourceVersion"), version, err.Error()).Error())
	case n == 0:
		l.Fresh.Any = true
	default:
		l.Fresh.Revision = store.Revision(n)
	}
	if l.Continue != "" {
		if l.versionGiven && !l.Fresh.Any {
			return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		l.Fresh = registry.Freshness{}
	}
	// Without resourceVersionMatch, a limit together with a version means exactly that version. That is older than the
	// parameter.
	l.Fresh.Exact = l.match == metav1.ResourceVersionMatchExact || l.match == "" && l.Limit > 0 && l.Fresh.Revision > 0 && !l.watch
	return nil
}

func (l *List) checkMatch(version string) error {
	path := field.NewPath("resourceVersionMatch")
	var errs field.ErrorList
	switch {
	case l.watch:
		errs = l.checkWatch(version)
	case l.InitialEvents != nil:
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	case l.match == "":
	case version == "":
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
	case l.Continue != "":
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
	case l.match != metav1.ResourceVersionMatchExact && l.match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(path, l.match, []string{"Exact", "NotOlderThan", ""}))
	case l.match == metav1.ResourceVersionMatchExact && version == "0":
		errs = append(errs, field.Forbidden(path, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
	}
	return InvalidOptions("ListOptions", errs)
}

// checkWatch validates the parameters of a watch. A watch that begins with the state only because it has no version is
// treated as one with sendInitialEvents.
func (l *List) checkWatch(version string) (errs field.ErrorList) {
	path := field.NewPath("resourceVersionMatch")
	if l.InitialEvents == nil && l.match == "" && (version == "" || version == "0") {
		yes := true
		l.InitialEvents, l.match = &yes, metav1.ResourceVersionMatchNotOlderThan
	}
	if l.InitialEvents != nil && l.match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if l.match == "" {
		l.Continue = "" // a watch ignores it
		return errs
	}
	if l.InitialEvents == nil {
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if l.match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.NotSupported(path, l.match, []string{"NotOlderThan"}))
	}
	if l.Continue != "" {
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
	}
	return errs
}

func InvalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}
