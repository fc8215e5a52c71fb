import js from "@eslint/js";
import tseslint from "typescript-eslint";

// Every number after the archive is computed once, in crates/analysis; the viewer picks and shows.
// These files compute: places on the page, texts of numbers, colours, and costs at the reader's
// prices. None of them may import another, so what was measured comes to them one number at a time.
const MAY_COMPUTE = [
  "src/cost.ts",
  "src/format.ts",
  "src/icicle.ts",
  "src/layout.ts",
  "src/theme.ts",
];
const COMPUTES =
  "what is measured is computed in crates/analysis, and places on the page in src/layout.ts; " +
  "texts are joined by templates";
const ARITHMETIC = [
  "BinaryExpression[operator=/^([-+*\\/%&|^]|\\*\\*|<<|>>>?)$/]",
  "AssignmentExpression[operator=/^([-+*\\/%&|^]|\\*\\*|<<|>>>?)=$/]",
  "UpdateExpression",
  "Identifier[name='Math']",
  "CallExpression[callee.property.name=/^reduce(Right)?$/]",
].map((selector) => ({ selector, message: COMPUTES }));

export default tseslint.config(
  { ignores: ["node_modules/", "out/"] },
  js.configs.recommended,
  {
    files: ["src/**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    // A comment must not open what is forbidden here.
    linterOptions: { noInlineConfig: true },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    files: ["src/**/*.ts"],
    ignores: MAY_COMPUTE,
    rules: { "no-restricted-syntax": ["error", ...ARITHMETIC] },
  },
  {
    files: MAY_COMPUTE,
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: [{ group: ["./*"], message: "what computes knows nothing of the report" }] },
      ],
    },
  },
  {
    files: ["tests/**/*.mjs", "types.mjs"],
    languageOptions: {
      globals: Object.fromEntries(
        ["process", "console", "URL", "setTimeout", "document", "window", "DOMParser"].map((g) => [
          g,
          "readonly",
        ]),
      ),
    },
  },
);
