"""Reads and writes the JSON of `deploy`: values of a deployment, descriptions of stacks, parameters of templates.

values.py set FILE NAME=VALUE...         sets values
values.py get FILE NAME                  prints a value, or nothing
values.py parameters FILE TEMPLATE       prints the values for the parameters of a template, in the format of the AWS CLI
values.py status STACKS NAME             prints the status of a stack in the output of describe-stacks, or nothing
values.py format STACKS NAME TEMPLATE    fails if the stack's data has another format than the template's functions read
values.py outputs FILE STACKS NAME...    sets the outputs of stacks as values
values.py contexts MANIFEST              prints the stacks that contain functions
values.py uploads LIST                   prints the folders of the web console in the order of their upload, each with the options of the AWS CLI
values.py check MANIFEST FUNCTIONS PREFIX ZIP
                                         fails unless every function runs the program in ZIP
values.py sha256 FILE...                 prints the SHA-256 of the content of the files
values.py zip FILE OUT                   packs a program as `bootstrap`, reproducibly
"""

import base64
import hashlib
import json
import sys
import zipfile

# The stacks without functions.
OTHERS = {"data", "containers", "api", "stream", "console", "operations"}
# States of a stack that never held data.
WITHOUT_DATA = {"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "REVIEW_IN_PROGRESS", "DELETE_COMPLETE"}


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def write(path, values):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2, sort_keys=True)
        file.write("\n")


def stack_of(stacks, name):
    return next((stack for stack in read(stacks).get("Stacks", []) if stack["StackName"] == name), None)


def digest(*paths):
    whole = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            whole.update(file.read())
    return whole


def main(command, *arguments):
    if command == "set":
        path, *pairs = arguments
        write(path, read(path) | dict(pair.split("=", 1) for pair in pairs))
    elif command == "get":
        print(read(arguments[0]).get(arguments[1], ""))
    elif command == "parameters":
        values, declared = read(arguments[0]), read(arguments[1]).get("Parameters", {})
        missing = [name for name, it in declared.items() if name not in values and "Default" not in it]
        if missing:
            sys.exit(f"{arguments[1]} needs values for {', '.join(missing)}")
        named = [name for name in declared if name in values]
        print(json.dumps([{"ParameterKey": name, "ParameterValue": values[name]} for name in named]))
    elif command == "status":
        stack = stack_of(*arguments)
        print(stack["StackStatus"] if stack else "")
    elif command == "format":
        stacks, name, template = arguments
        stack = stack_of(stacks, name)
        if stack and stack["StackStatus"] not in WITHOUT_DATA:
            outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
            found, wanted = outputs.get("DataFormat"), read(template)["Outputs"]["DataFormat"]["Value"]
            if found != wanted:
                sys.exit(
                    f"the data of the stack {name} has {f'the stored format {found}' if found else 'no version of its format'}, "
                    f"and these functions read format {wanted}; finish and export its sessions with the version that deployed it, "
                    "and deploy this one with another --prefix"
                )
    elif command == "outputs":
        path, stacks, *names = arguments
        values = read(path)
        for name in names:
            for output in (stack_of(stacks, name) or {}).get("Outputs", []):
                values[output["OutputKey"]] = output["OutputValue"]
        write(path, values)
    elif command == "contexts":
        print("\n".join(name for name in read(arguments[0])["stacks"] if name not in OTHERS))
    elif command == "uploads":
        for upload in read(arguments[0]):
            options = ["--content-type", upload["contentType"], "--cache-control", upload["cacheControl"]]
            if upload["contentEncoding"]:
                options += ["--content-encoding", upload["contentEncoding"]]
            print("\t".join([upload["folder"], *options]))
    elif command == "check":
        manifest, functions, prefix, archive = arguments
        deployed, sha = dict(read(functions)), base64.b64encode(digest(archive).digest()).decode()
        wanted = [f"{prefix}-{name}" for name in read(manifest)["functions"]]
        wrong = [name for name in wanted if deployed.get(name) != sha]
        if wrong:
            sys.exit(f"these functions do not run the artifact {sha}: {', '.join(wrong)}")
    elif command == "sha256":
        print(digest(*arguments).hexdigest())
    elif command == "zip":
        program, out = arguments
        entry = zipfile.ZipInfo("bootstrap", (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o755 << 16
        entry.create_system = 3
        entry.compress_type = zipfile.ZIP_DEFLATED
        with open(program, "rb") as file, zipfile.ZipFile(out, "w") as archive:
            archive.writestr(entry, file.read(), compresslevel=9)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
