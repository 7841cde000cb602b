package core

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

func checkLimitRange(l *corev1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, path := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, checkLimitType(string(item.Type), path.Child("type"))...)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, checkLimitNames(item, path)...)
		errs = append(errs, checkLimitAmounts(item, path)...)
	}
	return errs
}

func checkLimitType(name string, path *field.Path) field.ErrorList {
	errs := check.Qualified(name, path)
	if len(errs) > 0 || strings.Contains(name, "/") {
		return errs
	}
	switch corev1.LimitType(name) {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a standard limit type or fully qualified")}
}

func checkLimitNames(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := func(list corev1.ResourceList, part string) {
		for _, name := range sortedNames(list) {
			at := path.Child(part).Key(string(name))
			if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				errs = append(errs, check.ContainerResourceName(string(name), at)...)
			} else {
				errs = append(errs, check.ResourceName(string(name), at)...)
			}
		}
	}
	names(item.Max, "max")
	names(item.Min, "min")
	if item.Type == corev1.LimitTypePod {
		for _, part := range []struct {
			name string
			list corev1.ResourceList
		}{{"default", item.Default}, {"defaultRequest", item.DefaultRequest}} {
			if len(part.list) > 0 {
				errs = append(errs, field.Forbidden(path.Child(part.name), "may not be specified when `type` is 'Pod'"))
			}
		}
	} else {
		names(item.Default, "default")
		names(item.DefaultRequest, "defaultRequest")
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, min := item.Min[corev1.ResourceStorage]
		_, max := item.Max[corev1.ResourceStorage]
		if !min && !max {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	names(item.MaxLimitRequestRatio, "maxLimitRequestRatio")
	return errs
}

func sortedNames(lists ...corev1.ResourceList) []corev1.ResourceName {
	all := map[corev1.ResourceName]bool{}
	for _, list := range lists {
		for name := range list {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// checkLimitAmounts requires minimum ≤ default request ≤ default limit ≤ maximum, for those that are set.
func checkLimitAmounts(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio) {
		amount := func(list corev1.ResourceList) *resource.Quantity {
			if q, there := list[name]; there {
				return &q
			}
			return nil
		}
		lowest, highest := amount(item.Min), amount(item.Max)
		limit, request := amount(item.Default), amount(item.DefaultRequest)
		if item.Type == corev1.LimitTypePod {
			limit, request = nil, nil
		}
		order := func(a, b, bad *resource.Quantity, part, text string) {
			if a != nil && b != nil && a.Cmp(*b) > 0 {
				errs = append(errs, field.Invalid(path.Child(part).Key(string(name)), *bad, fmt.Sprintf(text, a.String(), b.String())))
			}
		}
		order(lowest, highest, lowest, "min", "min value %s is greater than max value %s")
		order(lowest, request, request, "defaultRequest", "min value %s is greater than default request value %s")
		order(request, highest, request, "defaultRequest", "default request value %s is greater than max value %s")
		order(request, limit, request, "defaultRequest", "default request value %s is greater than default limit value %s")
		order(lowest, limit, lowest, "default", "min value %s is greater than default value %s")
		order(limit, highest, highest, "default", "default value %s is greater than max value %s")
		if ratio := amount(item.MaxLimitRequestRatio); ratio != nil {
			errs = append(errs, checkRatio(*ratio, lowest, highest, path.Child("maxLimitRequestRatio").Key(string(name)))...)
		}
		if limit != nil && request != nil && limit.Cmp(*request) != 0 && !check.Overcommits(string(name)) {
			errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(name)), *request,
				fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)))
		}
	}
	return errs
}

func checkRatio(ratio resource.Quantity, lowest, highest *resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	if lowest == nil || highest == nil {
		return errs
	}
	r, low, high := float64(ratio.Value()), float64(lowest.Value()), float64(highest.Value())
	if precise := func(q resource.Quantity) bool { return q.Value() < math.MaxInt64/1000 }; precise(ratio) && precise(*lowest) && precise(*highest) {
		r, low, high = float64(ratio.MilliValue())/1000, float64(lowest.MilliValue()), float64(highest.MilliValue())
	}
	if bound := high / low; r > bound {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), bound)))
	}
	return errs
}
