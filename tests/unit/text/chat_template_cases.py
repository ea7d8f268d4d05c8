#!/usr/bin/env python3
"""Makes chat_template_cases.jsonl beside this file: small templates, one language rule each, with what jinja2 renders.

Needs jinja2 3.1. The environment is the one that transformers uses for chat templates: immutable sandbox, trim_blocks,
lstrip_blocks, loop controls, a `generation` tag, json.dumps as tojson, raise_exception, strftime_now at 2026-01-02
03:04:05.
A template that prints an object's address cannot be a case. Changing a list in place, which the sandbox
refuses and this engine allows, is tested in chat_template_test.c instead.
"""
import copy
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

DATA = {
    "n": 3,
    "f": 2.5,
    "s": "Hello World",
    "u": "Ünïcödé ǆ ß 漢字 🎉",
    "empty": "",
    "nothing": None,
    "yes": True,
    "big": 12345678901234567890,
    "html": "<b>\"x\" & 'y'</b>",
    "words": ["beta", "Alpha", "gamma", "alpha"],
    "numbers": [3, 1, 2, 10, -4],
    "mixed": [1, 1.0, True, "1", None, [], {}],
    "people": [
        {"name": "Ann", "age": 30, "address": {"city": "Rome"}},
        {"name": "bob", "age": 25, "address": {"city": "Oslo"}},
        {"name": "Cid", "age": 30},
    ],
    "d": {"b": 1, "A": 2, "a": 3, "items": "own", "é": {"deep": [1, None, True, 1e-7]}},
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}],
    "bos_token": "<s>",
    "lines": "one\n  two\n\nthree\n",
    "blanks": " \t x \u00a0\u3000\n",
}

# name: template
CASES = {
    # ---- blanks ----
    "trim_blocks": "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "lstrip_blocks": "a\n   {% if yes %}\n   b\n \t {% endif %}\nc",
    "lstrip_keeps_text": "x  {% if yes %} y {% endif %} z",
    "lstrip_not_for_variables": "a\n   {{ n }}\n",
    "plus_keeps_blanks": "a\n   {%+ if yes %}b{%+ endif %}",
    "plus_at_the_end": "{% if yes +%}\nb{% endif %}",
    "minus_left": "a  \n {%- if yes %} b{% endif %}",
    "minus_right": "{% if yes -%}  \n b{% endif %}",
    "minus_both": "a \n {{- n -}} \n b",
    "minus_unicode_blanks": "a\u00a0\u3000{{- n -}}\u2003b",
    "comment": "a{# x #}b{#- y -#} c {# {{ n }} {% if %} #}d",
    "comment_trims": "a\n  {# x #}\nb\n{#- c #}\n  d",
    "comment_plus": "a\n  {#+ x +#}\nb",
    "two_blocks_a_line": "  {% if yes %}{% endif %}  {% if yes %}{% endif %}\nx",
    "raw": "{% raw %}{{ n }} {% if %}{% endraw %}!",
    "raw_trims": "a\n {%- raw -%} \n {{ x }} \n {%- endraw -%} \n b",
    "raw_block_newline": "{% raw %}\nx\n{% endraw %}\ny",
    "crlf": "a\r\n{% if yes %}\r\nb\r\n{% endif %}\rc\r\n",
    "last_newline_goes": "a\n\n",
    "only_newline": "\n",
    "brace_text": "{ a } }} %} #} {x}",
    "block_end_in_string": "{{ '%}' ~ \"}}\" }}{% set x = '%}' %}{{ x }}",
    "dict_end": "{{ {'a': {'b': 1}}}}",
    "empty": "",
    # ---- literals ----
    "strings": r"""{{ 'a\'b' "c\"d" '\n\t\\' }}{{ '\x41\u00e9\U0001F389\101' }}{{ '\d\e' }}""",
    "string_newline": "{{ 'a\nb' }}",
    "string_joined_lines": "{{ 'a\\\nb' }}",
    "integers": "{{ 0 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ -5 }}",
    "floats": (
        "{{ 1.0 }} {{ 1.5e3 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.125 }} {{ 1e22 }} {{ 0.1 + "
        "0.2 }}"
    ),
    "float_texts": "{{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ -0.0 }} {{ 1e15 }} {{ 9007199254740993.0 }}",
    "constants": "{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}",
    "containers": "{{ [1, 'a', none, true] }} {{ (1,) }} {{ () }} {{ (1, 2) }} {{ {'a': 1, 2: 'b', none: 1.5} }}",
    "nested_repr": "{{ {'k': ['it\\'s', \"q\\\"\", 'both\\'\\\"']} }}",
    "repr_escapes": r"{{ ['\n\r\t\\\x00\x7f\x85\u200b\ue000é🎉'] }}",
    "big_integer": "{{ big }} {{ [big] }} {{ big | tojson }} {{ big is integer }} {{ big == big }}",
    "tuple_without_parentheses": "{{ 1, 2 }}",
    "trailing_commas": "{{ [1, 2,] }}{{ {'a': 1,} }}",
    # ---- names, attributes, items ----
    "undefined_prints_nothing": "[{{ missing }}]",
    "undefined_attribute": "{{ missing.x }}",
    "undefined_item": "{{ missing['x'] }}",
    "undefined_call": "{{ missing() }}",
    "undefined_add": "{{ missing + 'x' }}",
    "undefined_concat": "{{ missing ~ 'x' }}",
    "undefined_loop": "{% for x in missing %}x{% else %}none{% endfor %}",
    "undefined_compare": "{{ missing < 1 }}",
    "undefined_equal": "{{ missing == missing }} {{ missing == 1 }} {{ missing == none }} {{ missing in [1] }}",
    "undefined_truth": "{{ not missing }} {{ missing or 'x' }}",
    "undefined_length": "{{ missing | length }}",
    "undefined_in_list": "{{ [missing] }}",
    "undefined_tojson": "{{ missing | tojson }}",
    "attribute_missing": "[{{ d.zzz }}]",
    "attribute_missing_deep": "{{ d.zzz.y }}",
    "attribute_of_none": "[{{ nothing.x }}]",
    "method_before_key": "{{ d.items() | list | length }} {{ d['items'] }}",
    "key_only": "{{ d.a }} {{ d['A'] }} {{ d['é'].deep[3] }}",
    "index": "{{ words[0] }} {{ words[-1] }} [{{ words[9] }}] {{ words.0 }} {{ s[0] }} {{ u[-1] }}",
    "bool_index": "{{ words[true] }}",
    "underscore_key": "{{ {'_x': 1}._x }} [{{ s.__class__ }}]",
    "slices": (
        "{{ numbers[1:] }} {{ numbers[:2] }} {{ numbers[::-1] }} {{ numbers[-2:] }} {{ numbers[1:4:2] }} {{ "
        "numbers[:-1] }}"
    ),
    "slices_of_text": "{{ s[1:4] }} {{ u[:3] }} {{ u[::-1] }} {{ s[-5:] }} {{ s[20:] }}|{{ s[3:1] }}",
    "slice_bounds": (
        "{{ numbers[-99:99] }} {{ numbers[99:-99:-1] }} {{ numbers[::-2] }} {{ numbers[3:0:-1] }} {{ (1, 2, "
        "3)[1:] }}"
    ),
    "slice_of_none": "{{ nothing[1:] }}",
    "slice_step_zero": "{{ numbers[::0] }}",
    "slice_of_dict": "{{ d[1:] }}",
    "dict_of_tuple": "{{ {(1, 2): 'x'}[1, 2] }}",
    "integer_key": "{{ {1: 'a'}[1.0] }}{{ {1: 'a'}[true] }}",
    # ---- operators ----
    "arithmetic": (
        "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1 - "
        "4 }}"
    ),
    "float_arithmetic": "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 1.0 }} {{ 3 * 0.1 }} {{ 6 / 3 }}",
    "divide_by_zero": "{{ 1 / 0 }}",
    "modulo_by_zero": "{{ 1 % 0 }}",
    "bool_arithmetic": "{{ true + true }} {{ true * 3 }} {{ -true }}",
    "precedence": (
        "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ not 1 == 2 }} {{ 1 ~ (2 + 3) }}"
    ),
    "filter_binds_tighter": "{{ -3 | abs }} {{ 'a' ~ 'b' | upper }} {{ 1 + '2' | int }}",
    "add_lists": "{{ [1] + [2] }} {{ (1,) + (2,) }}",
    "add_list_tuple": "{{ [1] + (2,) }}",
    "add_string_int": "{{ 'a' + 1 }}",
    "add_none": "{{ nothing + 'x' }}",
    "repeat": "{{ 'ab' * 3 }} {{ 2 * 'x' }} {{ [0] * 3 }}|{{ 'x' * -1 }}",
    "concat": "{{ 1 ~ none ~ true ~ 1.5 ~ [1] ~ 'x' }}",
    "compare_chain": "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 != 2 }}",
    "compare_types": (
        "{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == false }} {{ [1] == (1,) }} {{ {'a': 1} == "
        "{'a': 1.0} }}"
    ),
    "compare_strings": "{{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'é' > 'z' }} {{ [1, 2] < [1, 3] }}",
    "compare_string_int": "{{ 'a' < 1 }}",
    "membership": "{{ 'ell' in s }} {{ 'x' not in s }} {{ 1 in [1, 2] }} {{ 'a' in d }} {{ 3 in d }} {{ '' in s }}",
    "membership_in_none": "{{ 'a' in nothing }}",
    "membership_of_int": "{{ 1 in s }}",
    "and_or": "{{ 0 or 'x' }} {{ 1 and 'y' }} {{ '' and 1 }}| {{ none or false }} {{ not 0 }}",
    "choice": "{{ 'a' if yes else 'b' }} {{ 'a' if not yes }}| {{ 'a' if nothing else 'b' if 0 else 'c' }}",
    "choice_without_else_used": "{{ ('a' if not yes).x }}",
    "percent": "{{ '%s-%d-%5.2f|%-5s|%05d|%x|%%' % ('a', 3, 2.5, 'ab', 42, 255) }}",
    "percent_named": "{{ '%(a)s %(b)r' % {'a': 1, 'b': 'x'} }}",
    "percent_list": "{{ '%s' % [1, 2] }}",
    "percent_too_few": "{{ '%s %s' % 1 }}",
    "percent_too_many": "{{ '%s' % (1, 2) }}",
    "percent_wrong": "{{ '%d' % 'x' }}",
    "mod_of_string": "{{ 'a' % () }}",
    # ---- statements ----
    "if_elif_else": (
        "{% for i in range(4) %}{% if i == 0 %}a{% elif i == 1 %}b{% elif i == 2 %}c{% else %}d{% endif %}{% "
        "endfor %}"
    ),
    "if_tuple": "{% if 0, 0 %}yes{% endif %}",
    "set_in_if_stays": "{% if yes %}{% set x = 1 %}{% endif %}{{ x }}",
    "set_in_for_goes": "{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "set_tuple": "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}",
    "set_tuple_short": "{% set a, b = [1] %}",
    "set_tuple_long": "{% set a, b = [1, 2, 3] %}",
    "set_block": "{% set x %}a{{ n }}b\n{% endset %}[{{ x }}]{{ x is string }}",
    "set_block_filter": "{% set x | upper | trim %} abc {% endset %}[{{ x }}]",
    "set_block_scope": "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}[{{ y }}]",
    "namespace": (
        "{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ "
        "ns.a }}{{ ns['b'] }}[{{ ns.c }}]"
    ),
    "namespace_of_dict": "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}",
    "namespace_only": "{% set d.x = 1 %}",
    "namespace_tuple_target": "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}",
    "for_else": "{% for x in [] %}a{% else %}b{% endfor %}{% for x in [1] %}a{% else %}b{% endfor %}",
    "for_if": "{% for x in numbers if x > 1 %}{{ loop.index }}:{{ x }} {{ loop.length }} {% endfor %}",
    "for_if_else": "{% for x in numbers if x > 99 %}a{% else %}none{% endfor %}",
    "for_unpack": "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "for_unpack_nested": "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "for_unpack_bad": "{% for a, b in [1] %}{% endfor %}",
    "for_dict": "{% for k in d %}{{ k }},{% endfor %}",
    "for_string": "{% for c in u %}{{ c }},{% endfor %}",
    "for_none": "{% for c in nothing %}{% endfor %}",
    "for_int": "{% for c in n %}{% endfor %}",
    "for_tuple": "{% for c in 1, 2, 3 %}{{ c }}{% endfor %}",
    "for_scope_ends": "{% for x in [1] %}{% endfor %}[{{ x }}][{{ loop }}]",
    "for_shadows": "{% set x = 'out' %}{% for x in [1] %}{{ x }}{% endfor %}{{ x }}",
    "loop_variables": (
        "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
        "loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}"
    ),
    "loop_neighbours": "{% for x in 'abc' %}[{{ loop.previtem }}{{ loop.nextitem }}]{% endfor %}",
    "loop_neighbour_undefined": "{% for x in [1] %}{{ loop.previtem is defined }}{{ loop.nextitem.x }}{% endfor %}",
    "loop_cycle": "{% for x in 'abcd' %}{{ loop.cycle('o', 'e') }}{% endfor %}",
    "loop_changed": "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "loop_break": "{% for x in range(9) %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "loop_continue": "{% for x in range(5) %}{% if x % 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "break_and_else": (
        "{% for x in [1, 2] %}{% break %}{% else %}else{% endfor %}{% for x in [1, 2] %}{% if x == 2 %}{% "
        "break %}{% endif %}{% else %}else{% endfor %}"
    ),
    "continue_and_else": "{% for x in [1, 2] %}{% continue %}{% else %}else{% endfor %}",
    "nested_loops": (
        "{% for a in 'xy' %}{% for b in [1, 2] %}{{ a }}{{ b }}{{ loop.index }}{% endfor %}{{ loop.index "
        "}};{% endfor %}"
    ),
    "recursive": (
        "{% for t in tree recursive %}{{ t.v }}@{{ loop.depth }}{% if t.c %}({{ loop(t.c) }}){% endif %}{% "
        "endfor %}"
    ),
    "not_recursive": "{% for t in tree %}{{ loop(t.c) }}{% endfor %}",
    "loop_over_generator": "{% for x in words | map('upper') %}{{ loop.last }}{{ x }}{% endfor %}",
    "macro": (
        "{% macro m(a, b=2, c='x' ~ b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 5) }} {{ "
        "m(b=3, a=0) }} {{ m(1, c=9) }}"
    ),
    "macro_missing_argument": "{% macro m(a) %}[{{ a }}]{{ a is defined }}{% endmacro %}{{ m() }}",
    "macro_too_many": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "macro_unknown_keyword": "{% macro m(a) %}{% endmacro %}{{ m(x=1) }}",
    "macro_varargs": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}",
    "macro_result_is_text": "{% macro m() %}5{% endmacro %}{{ m() is string }}{{ m() + '1' }}",
    "macro_sees_later": (
        "{% macro m() %}{{ later }}{{ other() }}{% endmacro %}{% set later = 'L' %}{% macro other() %}O{% "
        "endmacro %}{{ m() }}"
    ),
    "macro_scope": "{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "macro_in_list": (
        "{% macro a(x) %}A{{ x }}{% endmacro %}{% macro b(x) %}B{{ x }}{% endmacro %}{% for m in [a, b] %}{{ "
        "m(*[1]) }}{% endfor %}"
    ),
    "macro_recursion": "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "macro_default_none": "{% macro m(a=none) %}{{ a is none }}{% endmacro %}{{ m() }}",
    "macro_attributes": "{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}",
    "star_star": "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(**{'a': 1, 'b': 2}) }}{{ m(*[1], **{'b': 2}) }}",
    "call_block": (
        "{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('p') %}in{{ n }}{% "
        "endcall %}"
    ),
    "call_block_arguments": (
        "{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, "
        "i) each([7, 8]) %}{{ i }}={{ x }};{% endcall %}"
    ),
    "call_without_caller": "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "filter_block": "{% filter upper | replace('A', 'b') %}a{{ s }}{% endfilter %}",
    "with": "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}[{{ a }}]",
    "with_sees_outside": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "generation": "a{% generation %}{% set x = 1 %}b{{ x }}{% endgeneration %}[{{ x }}]",
    "block": "{% block one %}x{{ n }}{% endblock %}{% block two %}y{% endblock two %}",
    "print_statement": "{% print 1, 'a' %}",
    "colon_after_if": "{% if yes: %}x{% endif %}",
    "autoescape_off": "{% autoescape false %}{{ html }}{% endautoescape %}",
    # ---- tests ----
    "is_defined": (
        "{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.zzz is not defined }} "
        "{{ nothing is defined }}"
    ),
    "is_types": (
        "{% for x in [1, 1.5, true, 'a', none, [], (), {}, missing] %}{{ x is number }},{{ x is integer "
        "}},{{ x is float }},{{ x is boolean }},{{ x is string }},{{ x is none }},{{ x is mapping }},{{ x is "
        "sequence }},{{ x is iterable }},{{ x is callable }};{% endfor %}"
    ),
    "is_true_false": "{{ 1 is true }} {{ true is true }} {{ 0 is false }} {{ false is false }}",
    "is_even": "{{ 2 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}",
    "is_even_float": "{{ 2.0 is even }} {{ 2.5 is odd }} {{ true is odd }} {{ 7.5 is divisibleby 2.5 }}",
    "is_even_text": "{{ s is even }}",
    "is_compare": (
        "{{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 3 is ge(3) }} {{ 1 is in [1] }} {{ 'a' is "
        "equalto 'a' }}"
    ),
    "is_case": "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ '1' is lower }}",
    "is_sameas": "{{ none is sameas none }} {{ false is sameas false }} {{ 1 is sameas true }}",
    "is_callable": (
        "{% macro m() %}{% endmacro %}{{ m is callable }} {{ range is callable }} {{ s.upper is callable }}"
    ),
    "is_filter": "{{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }}",
    "is_not": "{{ n is not none }} {{ not n is none }} {{ n is defined and n is number }}",
    "is_chained": "{{ n is defined is true }}",
    "is_of_generator": "{{ words | map('upper') is iterable }} {{ (words | map('upper')) is sequence }}",
    "unknown_test": "{% if yes %}{{ n is sparkling }}{% endif %}",
    "is_escaped": "{{ s is escaped }} {{ s | safe is escaped }}",
    # ---- filters ----
    "unknown_filter_not_reached": "{% if not yes %}{{ n | sparkle }}{% endif %}ok",
    "unknown_filter": "{% if yes %}{{ n | sparkle }}{% endif %}",
    "tojson": "{{ d | tojson }} {{ mixed | tojson }} {{ html | tojson }}",
    "tojson_ascii": "{{ u | tojson(ensure_ascii=true) }} {{ '\\x7f\\x1f' | tojson }}",
    "tojson_indent": (
        "{{ d | tojson(indent=2) }}{{ [] | tojson(indent=4) }}{{ {} | tojson(indent=1) }}{{ [[]] | "
        "tojson(indent=1) }}"
    ),
    "tojson_separators": "{{ d | tojson(separators=(',', ':')) }}",
    "tojson_sorted": "{{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }}",
    "tojson_keys": "{{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson }}",
    "tojson_tuple": "{{ (1, 2) | tojson }}",
    "tojson_generator": "{{ words | map('upper') | tojson }}",
    "tojson_range": "{{ range(3) | tojson }}",
    "tojson_macro": "{% macro m() %}{% endmacro %}{{ m | tojson }}",
    "tojson_positional": "{{ u | tojson(true, 2) }}",
    "length": "{{ u | length }} {{ words | length }} {{ d | count }} {{ range(5) | length }}",
    "length_of_int": "{{ n | length }}",
    "length_of_generator": "{{ words | map('upper') | length }}",
    "trim": "[{{ blanks | trim }}] [{{ 'xxaxx' | trim('x') }}] {{ nothing | trim }} {{ 5 | trim }}",
    "case_filters": (
        "{{ u | upper }} {{ u | lower }} {{ s | lower | capitalize }} {{ 'hello wORLD-foo (bar) it\\'s' | "
        "title }}"
    ),
    "case_special": "{{ 'ΑΣ ΟΔΟΣ' | lower }} {{ 'straße' | upper }} {{ 'İ' | lower }} {{ 'ŉ' | upper }}",
    "string": "{{ 1 | string }}{{ none | string }}{{ [1, 'a'] | string }}{{ 1.0 | string is string }}",
    "join": (
        "{{ words | join(', ') }} {{ numbers | join }} {{ people | join('-', attribute='name') }} {{ [1, "
        "none, true] | join('/') }} {{ 'abc' | join('.') }}"
    ),
    "join_of_dict": "{{ d | join(',') }}",
    "join_none": "{{ nothing | join }}",
    "default": (
        "{{ missing | default('x') }} {{ '' | default('x') }}|{{ '' | default('x', true) }} {{ nothing | "
        "d('x') }} {{ missing | default }}|{{ none | default('z', boolean=true) }}"
    ),
    "items": "{% for k, v in d | items %}{{ k }}{% endfor %}{{ missing | items | list }}",
    "items_of_string": "{{ s | items }}{% for k, v in s | items %}{% endfor %}",
    "list": "{{ 'abc' | list }} {{ d | list }} {{ (1, 2) | list }}",
    "first_last": "{{ words | first }} {{ words | last }} [{{ [] | first }}] {{ s | first }}",
    "min_max": (
        "{{ numbers | min }} {{ numbers | max }} {{ words | min }} {{ words | max(case_sensitive=true) }} {{ "
        "people | min(attribute='age') }} [{{ [] | min }}]"
    ),
    "sum": "{{ numbers | sum }} {{ people | sum(attribute='age') }} {{ [1.5, 2] | sum(start=10) }}",
    "sort": "{{ words | sort }} {{ words | sort(true) }} {{ words | sort(case_sensitive=true) }} {{ numbers | sort }}",
    "sort_attribute": (
        "{% for p in people | sort(attribute='age,name') %}{{ p.name }}{% endfor %} {% for p in people | "
        "sort(attribute='name', reverse=true) %}{{ p.name }}{% endfor %}"
    ),
    "sort_mixed": "{{ [1, 'a'] | sort }}",
    "unique": "{{ words | unique | list }} {{ words | unique(true) | list }} {{ [1, 1.0, true, 2] | unique | list }}",
    "reverse": "{{ words | reverse | list }} {{ s | reverse }} {{ numbers | reverse | first }}",
    "dictsort": (
        "{{ d | dictsort }} {{ {'b': 2, 'a': 3} | dictsort(by='value') }} {{ {'b': 1, 'B': 2, 'A': 3} | "
        "dictsort(true) }} {{ {'a': 1, 'b': 2} | dictsort(reverse=true) }}"
    ),
    "map_filter": (
        "{{ words | map('upper') | join(',') }} {{ numbers | map('string') | list }} {{ ['a-b'] | "
        "map('replace', '-', '+') | list }}"
    ),
    "map_attribute": (
        "{{ people | map(attribute='name') | list }} {{ people | map(attribute='zzz') | list }} {{ people | "
        "map(attribute='zzz', default='?') | list }} {{ [[1, 2]] | map(attribute=1) | list }}"
    ),
    "map_attribute_deep": "{{ people[:2] | map(attribute='address.city') | list }}",
    "map_attribute_undefined": "{{ people | map(attribute='address.city') | list }}",
    "map_of_none": "{{ nothing | map('upper') | list }}",
    "select": (
        "{{ [0, 1, '', 'a'] | select | list }} {{ numbers | select('odd') | list }} {{ numbers | "
        "reject('gt', 1) | list }} {{ [0, 1] | reject | list }}"
    ),
    "selectattr": (
        "{{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | list }} {{ people | "
        "selectattr('address') | list | length }} {{ people | rejectattr('address', 'defined') | "
        "map(attribute='name') | join }}"
    ),
    "generator_is_read_once": "{% set g = words | map('upper') %}{{ g | list | length }}{{ g | list | length }}",
    "groupby": (
        "{% for age, list in people | groupby('age') %}{{ age }}:{{ list | map(attribute='name') | join }} "
        "{% endfor %}"
    ),
    "batch": "{{ numbers | batch(2) | list }} {{ numbers | batch(2, 0) | list }}",
    "slice_filter": (
        "{{ numbers | slice(2) | list }} {{ numbers | slice(3, 'x') | list }} {{ [1, 2] | slice(2, 'x') | "
        "list }}"
    ),
    "replace": (
        "{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ 'ab' | replace('', '-') }} {{ 121 | "
        "replace(1, 3) }}"
    ),
    "indent": (
        "{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | "
        "indent('> ', first=true) }}"
    ),
    "int": (
        "{{ '42' | int }} {{ ' 7 ' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ 3.9 | int }} {{ '3.9' | "
        "int }} {{ 'ff' | int(0, 16) }} {{ '0x1f' | int(0, 16) }} {{ true | int }} {{ none | int(5) }} {{ "
        "-3.9 | int }} {{ '1_000' | int }}"
    ),
    "float": (
        "{{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ 'x' | float(1.5) }} {{ '1e3' | float }} {{ "
        "'inf' | float }}"
    ),
    "abs_round": (
        "{{ -5 | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | "
        "round(method='ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 42 | round }} {{ 1234.5 | round(-2) }}"
    ),
    "round_bool": "{{ true | round }} {{ [7 | round(1), 7.0 | round(1)] }}",
    "map_of_nothing": "{{ [] | map('nope') | list }} {{ nothing | select('nope') | list }}",
    "indent_of_list": "{{ words | indent }}",
    "escape": "{{ html | e }} {{ html | escape | escape }} {{ html | safe | forceescape }}",
    "safe_add": "{{ ('<b>' | safe) + html }} {{ html + ('<b>' | safe) }} {{ '<b>' | safe ~ html }}",
    "safe_characters": "{{ ('<a>' | safe) | list }} {{ ('&' | safe).join([missing, 1, '<']) }}",
    "safe_methods": (
        "{{ ('<a>' | safe).replace('a', '<') }} {{ ('%s' | safe) % html }} {{ ('<a>' | safe)[1:] + '<' }} {{ "
        "('a,b' | safe).split(',')[0] + '<' }} {{ ['<a>' | safe] }}"
    ),
    "safe_join": "{{ ['<', '<' | safe] | join('&') }} {{ ('&' | safe).join(['<', '<' | safe]) }}",
    "safe_filters": (
        "{{ ('<a>' | safe | upper) + '<' }} {{ ('<a>' | safe | replace('a', 'b')) + '<' }} {{ ('<a>' | safe "
        "| string) + '<' }} {{ (' <a>' | safe | trim) + '<' }}"
    ),
    "urlencode": "{{ 'a b/c?é' | urlencode }} {{ {'a': 'x y', 'b': 1} | urlencode }}",
    "wordcount": "{{ s | wordcount }} {{ 'it is, a-b' | wordcount }}",
    "center": "[{{ 'ab' | center(7) }}] [{{ 'abc' | center(8) }}]",
    "format_filter": "{{ '%s, %s!' | format('a', 1) }} {{ '%(x)s' | format(x=2) }}",
    "truncate": (
        "{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz "
        "qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, False, '..', 0) }}"
    ),
    "filesizeformat": (
        "{{ 100 | filesizeformat }} {{ 1500 | filesizeformat }} {{ 1500000 | filesizeformat(true) }} {{ 1 | "
        "filesizeformat }}"
    ),
    "attr": "{{ s | attr('upper') is callable }} [{{ d | attr('a') }}]",
    "pprint": "{{ [1, 'a'] | pprint }}",
    "filter_unknown_keyword": "{{ s | replace('a', 'b', foo=1) }}",
    "filter_missing_argument": "{{ s | replace('a') }}",
    # ---- methods ----
    "strip": (
        "[{{ blanks.strip() }}] [{{ 'xyxaxy'.strip('xy') }}] [{{ '  a '.lstrip() }}] [{{ ' a  '.rstrip() }}] "
        "[{{ 'a\\n\\n'.rstrip('\\n') }}]"
    ),
    "split": (
        "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.split(none, "
        "1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a<t>b<t>c'.split('<t>')[-1] }}"
    ),
    "split_empty_separator": "{{ s.split('') }}",
    "rsplit": (
        "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a b'.rsplit() }} {{ "
        "'aXXbXXc'.rsplit('XX', maxsplit=1) }}"
    ),
    "splitlines": "{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ 'a\\n\\nb'.splitlines(true) }}",
    "partition": (
        "{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ "
        "'abc'.rpartition('=') }}"
    ),
    "affixes": (
        "{{ s.startswith('Hell') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('W', 6) }} {{ "
        "s.removeprefix('Hello ') }} {{ s.removesuffix('x') }} {{ s.startswith('') }}"
    ),
    "find": (
        "{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ u.find('字') }} {{ s.index('W') }} {{ "
        "s.count('l') }} {{ s.count('') }} {{ s.find('o', 5) }} {{ s.find('o', 5, 7) }}"
    ),
    "index_missing": "{{ s.index('zz') }}",
    "method_case": (
        "{{ s.upper() }} {{ s.lower() }} {{ s.swapcase() }} {{ 'they\\'re bill\\'s'.title() }} {{ 'hELLO "
        "wORLD'.capitalize() }}"
    ),
    "questions": (
        "{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'ab1'.isalnum() }} {{ "
        "''.isalpha() }} {{ 'Ab'.istitle() }} {{ 'AB'.isupper() }} {{ 'a_1'.isidentifier() }} {{ "
        "'é'.isascii() }}"
    ),
    "padding": (
        "[{{ 'ab'.ljust(4) }}] [{{ 'ab'.rjust(4, '*') }}] [{{ 'ab'.center(5) }}] [{{ 'abc'.center(6, '-') "
        "}}] {{ '-42'.zfill(6) }} {{ 'a\\tb'.expandtabs(4) }}"
    ),
    "replace_method": "{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ 'aaa'.replace('aa', 'b') }}",
    "join_method": "{{ ', '.join(words) }}",
    "join_method_of_ints": "{{ ','.join([1]) }}",
    "format_method": (
        "{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ "
        "'{x:>5}|{x:<5}|{x:^5}'.format(x='ab') }} {{ '{:05.1f} {:,} {:x} {:+d} {:%}'.format(2.55, 1234567, "
        "255, 3, 0.5) }} {{ '{{}}'.format() }}"
    ),
    "format_method_fields": "{{ '{0[a]} {p[name]} {w[1]}'.format(d, p=people[0], w=words) }} {{ '{!r}'.format('x') }}",
    "format_method_missing": "{{ '{}'.format() }}",
    "format_map": "{{ '{a}-{b}'.format_map(d) }}",
    "dict_methods": (
        "{{ d.keys() | list }} {{ d.values() | list | length }} {{ d.get('a') }} {{ d.get('zz') }} {{ "
        "d.get('zz', 7) }} {{ d.copy() == d }}"
    ),
    "dict_views": (
        "{{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ {'a': 1}.items() }} {{ d.keys() is sequence }} {{ "
        "d.items() | length }}"
    ),
    "dict_get_default_undefined": "[{{ d.get('zz', missing) }}]",
    "list_methods": "{{ numbers.index(2) }} {{ numbers.count(3) }} {{ (1, 2).index(2) }}",
    "list_index_missing": "{{ numbers.index(99) }}",
    "unhashable": "{{ {[1]: 2} }}",
    "method_of_none": "{{ nothing.strip() }}",
    "method_of_int": "{{ n.strip() }}",
    "method_is_defined": "{{ s.encode is defined }} {{ s.nope is defined }} {{ n.real }}",
    # ---- globals ----
    "range": (
        "{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(3) }} {{ "
        "range(0, 9, 2) }} {{ 2 in range(3) }} {{ range(5)[1] }}"
    ),
    "range_too_big": "{{ range(1000000) | length }}",
    "range_zero_step": "{{ range(1, 2, 0) }}",
    "dict_function": "{{ dict(a=1, b='x') }} {{ dict({'c': 1}, d=2) }} {{ dict([['e', 1]]) }}",
    "cycler": (
        "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set x = "
        "c.reset() %}{{ c.current }}"
    ),
    "joiner": "{% set j = joiner('|') %}{% for x in 'abc' %}{{ j() }}{{ x }}{% endfor %}",
    "raise_exception": "a{{ raise_exception('no ' ~ n ~ ' \"quoted\" é') }}",
    "raise_in_macro": "{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{% if yes %}{{ m() }}{% endif %}",
    "strftime": (
        "{{ strftime_now('%Y-%m-%d %H:%M:%S %A %d %b %y %j') }}|{{ strftime_now('') }}|{{ strftime_now('%-d "
        "%B') }}"
    ),
    "global_can_be_shadowed": "{% set range = 5 %}{{ range }}",
    "token_variable": "{{ bos_token }}{{ bos_token + s }}",
    # ---- syntax errors ----
    "error_unclosed_if": "a\n{% if yes %}b",
    "error_unknown_tag": "{% sparkle %}",
    "error_unclosed_variable": "{{ n",
    "error_unclosed_comment": "{# x",
    "error_unclosed_string": "{{ 'x }}",
    "comment_at_the_end": "x{#",
    "error_item_comma": "{{ d[1,] }}",
    "error_bad_bracket": "{{ (1] }}",
    "error_stray_end": "{% endif %}",
    "error_bad_target": "{% set 1 = 2 %}",
    "error_no_expression": "{{ }}",
    "error_keyword_order": "{{ dict(a=1, 2) }}",
    "error_default_order": "{% macro m(a=1, b) %}{% endmacro %}",
    "error_break_outside": "{% break %}",
    "error_bad_operator": "{{ 1 + }}",
    "error_single_equals": "{{ a = 1 }}",
    "error_include": "{% include 'x' %}",
    "error_import": "{% import 'x' as y %}",
    "error_extends": "{% extends 'x' %}",
}


class Generation(jinja2.ext.Extension):
    """A block with its own scope, as transformers parses it: a call of the extension with the body as its caller."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("run"), [], [], body).set_lineno(line)

    def run(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 2, 3, 4, 5).strftime
    return env


def result(env, template):
    try:
        return {"output": env.from_string(template).render(**copy.deepcopy(DATA))}
    except Exception as problem:  # pylint: disable=broad-except
        return {"error": str(problem), "kind": type(problem).__name__}


def main():
    env = environment()
    lines = [json.dumps({"variables": DATA})]
    for name, template in CASES.items():
        record = {"name": name, "template": template, **result(env, template)}
        assert " at 0x" not in record.get("output", ""), name
        lines.append(json.dumps(record))
    target = pathlib.Path(__file__).with_name("chat_template_cases.jsonl")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
