// kiln completion: generates shell scripts from the tables of commands and options.
#include <stdio.h>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/own_flags.h"
#include "cli/view.h"

static bool is_own_option(const struct command *c, const struct option *o)
{
    return option_find(c, str_from(o->field.name)) == o;
}

static bool wants_file(const struct option *o)
{
    return o->value && (strcmp(o->value, "FILE") == 0 || strcmp(o->value, "PROFILE") == 0 ||
                        strcmp(o->value, "BASE") == 0);
}

// Whether files follow the command's words.
static bool wants_files(const struct command *c)
{
    return strcmp(c->name, "server") == 0 || strcmp(c->name, "debuginfo") == 0;
}

// The words that may follow the command.
static void put_words(const struct command *c, FILE *to)
{
    if (strcmp(c->name, "help") == 0)
        for (const struct command *other = commands; other->name; other++)
            fprintf(to, "%s ", other->name);
    else if (strcmp(c->name, "completion") == 0)
        fputs("bash zsh fish ", to);
    else if (strcmp(c->name, "server") == 0)
        fputs("backup check delete-service migrate ready ", to);
    else if (strcmp(c->name, "debuginfo") == 0)
        fputs("upload list delete ", to);
    else if (strcmp(c->name, "query") == 0)
        fputs("types labels series function changes top flame tree diff pprof ", to);
}

static void put_choices(const struct option *o, FILE *to)
{
    for (const char *const *choice = option_field(o)->choices; *choice; choice++)
        fprintf(to, "%s%s", choice == option_field(o)->choices ? "" : " ", *choice);
}

// --- bash ---

static void put_pprof_flags(FILE *to)
{
    for (const struct view_command *v = view_commands; v->name; v++)
        fprintf(to, "-%s%s ", v->name, v->takes_regexp ? "=" : "");
    for (const struct config_field *f = config_fields; f->name; f++)
        if (!f->choices)
            fprintf(to, "-%s%s ", f->name, f->kind == CONFIG_BOOL ? "" : "=");
    for (const struct config_choice *c = config_choices; c->name; c++)
        fprintf(to, "-%s ", c->name);
    fputs("-base= -diff_base= -seconds= -symbolize= -http= ", to);
}

static void bash_options(const struct command *c, FILE *to)
{
    char name[64];
    fprintf(to, "    %s) options=\"", c->name);
    if (strcmp(c->name, "pprof") == 0)
        put_pprof_flags(to);
    for (const struct own_flag *f = own_flags(c); f->name; f++)
        fprintf(to, "%s%s%s ", own_flag_dashes(f), f->name, f->value && f->name[1] ? "=" : "");
    for (const struct option *o = options; o->field.name; o++) {
        if (!is_own_option(c, o))
            continue;
        option_spelling(o, name, sizeof name);
        fprintf(to, "--%s%s ", name, option_takes_value(o) ? "=" : "");
    }
    fputs("--help\" words=\"", to);
    put_words(c, to);
    fputs("\" ;;\n", to);
}

static void put_bash_script(FILE *to)
{
    char name[64];
    fputs("# bash completion for kiln: made by `kiln completion bash`\n"
          "_kiln() {\n"
          "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "  local options='' words=''\n"
          "  COMPREPLY=()\n"
          "  if [[ $current == = ]]; then\n"
          "    current=''\n"
          "  elif [[ $before == = ]]; then\n"
          "    before=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "  fi\n"
          "  if ((COMP_CWORD == 1)); then\n"
          "    COMPREPLY=($(compgen -W '",
          to);
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "%s ", c->name);
    fputs("--help --version' -- \"$current\"))\n"
          "    return\n"
          "  fi\n"
          "  case $before in\n",
          to);
    for (const struct option *o = options; o->field.name; o++) {
        if (o->implied || !option_field(o)->choices)
            continue;
        option_spelling(o, name, sizeof name);
        fprintf(to, "    --%s) COMPREPLY=($(compgen -W '", name);
        put_choices(o, to);
        fputs("' -- \"$current\")); return ;;\n", to);
    }
    fputs("  esac\n"
          "  case ${COMP_WORDS[1]} in\n",
          to);
    for (const struct command *c = commands; c->name; c++)
        bash_options(c, to);
    fputs("  esac\n"
          "  if [[ $current == -* ]]; then\n"
          "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
          "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
          "  elif [[ -n $words ]]; then\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "  fi\n"
          "}\n"
          "complete -o bashdefault -o default -F _kiln kiln\n",
          to);
}

// --- zsh and fish ---

// Escapes a text for single quotes, and the characters in special.
static void put_masked(struct str s, const char *special, FILE *to)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\'') {
            fputs("'\\''", to);
            continue;
        }
        if (strchr(special, s.p[i]))
            fputc('\\', to);
        fputc(s.p[i], to);
    }
}

static void zsh_option(const struct option *o, FILE *to)
{
    char name[64];
    option_spelling(o, name, sizeof name);
    bool takes = option_takes_value(o);
    fprintf(to, " \\\n        '--%s%s[", name, takes ? "=" : "");
    put_masked(option_summary(o), "[]:\\", to);
    fputc(']', to);
    if (takes) {
        fprintf(to, ":%s:", o->value);
        if (option_field(o)->choices) {
            fputc('(', to);
            put_choices(o, to);
            fputc(')', to);
        } else if (wants_file(o)) {
            fputs("_files", to);
        }
    }
    fputc('\'', to);
}

static void put_zsh_script(FILE *to)
{
    fputs("#compdef kiln\n# made by `kiln completion zsh`\n"
          "_kiln() {\n"
          "  local -a commands\n"
          "  commands=(\n",
          to);
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, "    '%s:", c->name);
        put_masked(str_from(c->summary), ":\\", to);
        fputs("'\n", to);
    }
    fputs("  )\n"
          "  if ((CURRENT == 2)); then\n"
          "    _describe command commands\n"
          "    return\n"
          "  fi\n"
          "  shift words\n"
          "  ((CURRENT--))\n"
          "  case $words[1] in\n",
          to);
    for (const struct command *c = commands; c->name; c++) {
        fprintf(to, "    %s)\n", c->name);
        if (strcmp(c->name, "pprof") == 0) {
            fputs("      if [[ $PREFIX == -* ]]; then compadd -- ", to);
            put_pprof_flags(to);
            fputs("; else _files; fi ;;\n", to);
            continue;
        }
        fputs("      _arguments '--help[show help]'", to);
        for (const struct own_flag *f = own_flags(c); f->name; f++) {
            fprintf(to, " \\\n        '%s%s[", own_flag_dashes(f), f->name);
            put_masked(own_flag_summary(f), "[]:\\", to);
            fprintf(to, "]%s%s'", f->value ? ":" : "", f->value ? f->value : "");
        }
        for (const struct option *o = options; o->field.name; o++)
            if (is_own_option(c, o))
                zsh_option(o, to);
        if (c->main) {
            bool files = wants_files(c);
            fprintf(to, " \\\n        '%s:word:(", files ? "1" : "*");
            put_words(c, to);
            fputs(files ? ")' \\\n        '*:file:_files' ;;\n" : ")' ;;\n", to);
        } else {
            fputs(" \\\n        '*:profile:_files' ;;\n", to);
        }
    }
    fputs("  esac\n"
          "}\n"
          "if [[ $funcstack[1] == _kiln ]]; then _kiln \"$@\"; else compdef _kiln kiln; fi\n",
          to);
}

static void fish_option(const struct command *c, const struct option *o, FILE *to)
{
    char name[64];
    option_spelling(o, name, sizeof name);
    fprintf(to, "complete -c kiln -n '__fish_seen_subcommand_from %s' -l %s", c->name, name);
    if (o->letter)
        fprintf(to, " -s %c", o->letter);
    if (option_takes_value(o)) {
        fputs(wants_file(o) ? " -rF" : " -x", to);
        if (option_field(o)->choices) {
            fputs(" -a '", to);
            put_choices(o, to);
            fputc('\'', to);
        }
    }
    fputs(" -d '", to);
    struct str summary = option_summary(o);
    for (size_t i = 0; i < summary.n; i++)
        fprintf(to, summary.p[i] == '\'' ? "\\%c" : "%c", summary.p[i]);
    fputs("'\n", to);
}

static void put_fish_script(FILE *to)
{
    fputs("# made by `kiln completion fish`\n", to);
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "complete -c kiln -f -n __fish_use_subcommand -a %s -d \"%s\"\n", c->name,
                c->summary);
    for (const struct command *c = commands; c->name; c++) {
        for (const struct option *o = options; o->field.name; o++)
            if (is_own_option(c, o))
                fish_option(c, o, to);
        for (const struct own_flag *f = own_flags(c); f->name; f++) {
            fprintf(to, "complete -c kiln -n '__fish_seen_subcommand_from %s' -%s %s%s -d '",
                    c->name, f->name[1] ? "l" : "s", f->name, f->value ? " -r" : "");
            put_masked(own_flag_summary(f), "\\", to);
            fputs("'\n", to);
        }
        if (c->main && strcmp(c->name, "pprof") != 0) {
            fprintf(to, "complete -c kiln %s-n '__fish_seen_subcommand_from %s' -a '",
                    wants_files(c) ? "" : "-f ", c->name);
            put_words(c, to);
            fputs("'\n", to);
        }
    }
    for (const struct view_command *v = view_commands; v->name; v++)
        fprintf(to, "complete -c kiln -n '__fish_seen_subcommand_from pprof' -o %s -d \"%s\"\n",
                v->name, v->summary);
    for (const struct config_field *f = config_fields; f->name; f++)
        if (!f->choices)
            fprintf(to, "complete -c kiln -n '__fish_seen_subcommand_from pprof' -o %s%s\n",
                    f->name, f->kind == CONFIG_BOOL ? "" : " -r");
}

int command_completion(int argc, char **argv)
{
    const char *shell = argc == 2 ? argv[1] : "";
    if (strcmp(shell, "bash") == 0) {
        put_bash_script(stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        put_zsh_script(stdout);
    } else if (strcmp(shell, "fish") == 0) {
        put_fish_script(stdout);
    } else {
        fprintf(stderr,
                *shell ? "kiln: unknown shell \"%s\"; expected bash, zsh or fish\n"
                       : "kiln: no shell; expected bash, zsh or fish\n",
                shell);
        return 2;
    }
    return 0;
}
