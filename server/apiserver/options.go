package apiserver

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/store"
)

// listOptions are the query of a list or a watch, read and checked.
type listOptions struct {
	labels         labels.Selector
	fields         fields.Selector
	watch          bool
	bookmarks      bool
	initialEvents  *bool
	fresh          registry.Freshness
	versionGiven   bool
	match          metav1.ResourceVersionMatch
	timeoutSeconds *int64
	limit          int
	next           string
}

func parseListOptions(q url.Values, face *resource.Face) (listOptions, error) {
	var o listOptions
	var err error
	fail := func(e error) {
		if err == nil && e != nil {
			err = apierrors.NewBadRequest(e.Error())
		}
	}
	o.watch = boolean(q, "watch")
	o.bookmarks = boolean(q, "allowWatchBookmarks")
	if q.Has("sendInitialEvents") {
		v := boolean(q, "sendInitialEvents")
		o.initialEvents = &v
	}
	limit, e := integer(q, "limit")
	fail(e)
	if limit != nil && *limit > 0 {
		o.limit = int(*limit)
	}
	o.timeoutSeconds, e = integer(q, "timeoutSeconds")
	fail(e)
	o.labels, e = labels.Parse(q.Get("labelSelector"))
	fail(e)
	o.fields, e = fields.ParseSelector(q.Get("fieldSelector"))
	fail(e)
	if err != nil {
		return o, err
	}
	for _, r := range o.fields.Requirements() {
		if !registry.Supports(face, r.Field) {
			return o, unsupportedField(face.Of, r.Field)
		}
	}
	o.next = q.Get("continue")
	o.match = metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	return o, o.parseVersion(q.Get("resourceVersion"))
}

// unsupportedField says that a kind has no such field to select on.
func unsupportedField(kind *resource.Kind, label string) error {
	switch {
	case kind.Resource == "jobs" && kind.Group == "batch":
		return apierrors.NewBadRequest(fmt.Sprintf("field label %q not supported for Job", label))
	case len(kind.Fields) > 0:
		return apierrors.NewBadRequest("field label not supported: " + label)
	}
	return apierrors.NewBadRequest(fmt.Sprintf(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, label))
}

func (o *listOptions) parseVersion(version string) error {
	o.versionGiven = version != ""
	if err := o.checkMatch(version); err != nil {
		return err
	}
	n, err := strconv.ParseUint(version, 10, 63)
	switch {
	case version == "":
	case err != nil:
		return apierrors.NewBadRequest("invalid resource version: " + field.Invalid(field.NewPath("resourceVersion"), version, err.Error()).Error())
	case n == 0:
		o.fresh.Any = true
	default:
		o.fresh.Revision = store.Revision(n)
	}
	if o.next != "" {
		if o.versionGiven && !o.fresh.Any {
			return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		o.fresh = registry.Freshness{}
	}
	// Before the match could be named, a limit with a version asked for exactly that version.
	o.fresh.Exact = o.match == metav1.ResourceVersionMatchExact || o.match == "" && o.limit > 0 && o.fresh.Revision > 0 && !o.watch
	return nil
}

func (o *listOptions) checkMatch(version string) error {
	path := field.NewPath("resourceVersionMatch")
	var errs field.ErrorList
	switch {
	case o.watch:
		errs = o.checkWatch(version)
	case o.initialEvents != nil:
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	case o.match == "":
	case version == "":
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
	case o.next != "":
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
	case o.match != metav1.ResourceVersionMatchExact && o.match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(path, o.match, []string{"Exact", "NotOlderThan", ""}))
	case o.match == metav1.ResourceVersionMatchExact && version == "0":
		errs = append(errs, field.Forbidden(path, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
	}
	return invalidOptions("ListOptions", errs)
}

// checkWatch checks what goes with a watch. One that begins with the state, because it names no version, is what it would
// be if it asked for the state.
func (o *listOptions) checkWatch(version string) (errs field.ErrorList) {
	path := field.NewPath("resourceVersionMatch")
	if o.initialEvents == nil && o.match == "" && (version == "" || version == "0") {
		yes := true
		o.initialEvents, o.match = &yes, metav1.ResourceVersionMatchNotOlderThan
	}
	if o.initialEvents != nil && o.match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.Forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if o.match == "" {
		o.next = "" // and is not looked at
		return errs
	}
	if o.initialEvents == nil {
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if o.match != metav1.ResourceVersionMatchNotOlderThan {
		errs = append(errs, field.NotSupported(path, o.match, []string{"NotOlderThan"}))
	}
	if o.next != "" {
		errs = append(errs, field.Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
	}
	return errs
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// boolean reads a flag as Kubernetes does: whatever is not a denial is a yes.
func boolean(q url.Values, name string) bool {
	if !q.Has(name) {
		return false
	}
	switch strings.ToLower(q.Get(name)) {
	case "false", "0":
		return false
	}
	return true
}

func integer(q url.Values, name string) (*int64, error) {
	if !q.Has(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

// writeOptions are the query of a change.
type writeOptions struct {
	dryRun     bool
	manager    string
	validation string
	force      bool
}

const longestManager = 128

func parseWriteOptions(q url.Values, kind string) (writeOptions, error) {
	o := writeOptions{manager: q.Get("fieldManager"), validation: q.Get("fieldValidation"), force: boolean(q, "force")}
	var errs field.ErrorList
	if all, given := q["dryRun"]; given {
		o.dryRun = true
		if slices.ContainsFunc(all, func(one string) bool { return one != metav1.DryRunAll }) {
			errs = append(errs, field.NotSupported(field.NewPath("dryRun"), all, []string{metav1.DryRunAll}))
		}
	}
	errs = append(errs, checkManager(o.manager)...)
	switch o.validation {
	case "", metav1.FieldValidationIgnore, metav1.FieldValidationStrict, metav1.FieldValidationWarn:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("fieldValidation"), o.validation,
			[]string{"", metav1.FieldValidationIgnore, metav1.FieldValidationStrict, metav1.FieldValidationWarn}))
	}
	return o, invalidOptions(kind, errs)
}

func checkManager(name string) field.ErrorList {
	path := field.NewPath("fieldManager")
	if len(name) > longestManager {
		return field.ErrorList{field.TooLong(path, name, longestManager)}
	}
	for i, r := range name {
		if !unicode.IsPrint(r) {
			return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("invalid character %#U (at position %d)", r, i))}
		}
	}
	return nil
}
