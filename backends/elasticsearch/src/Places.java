import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The documents of regions, cities and villages. */
final class Places {
    private static final List<String> LANGUAGES = List.of("cs", "de", "en", "hu", "pl", "sk");

    private Places() {}

    static Map<String, Object> region(Map<String, String> row) {
        return document(row, Map.of(), 0.4, 4000);
    }

    static Map<String, Object> city(Map<String, String> row) {
        return document(row, settlement(row), 0.05, 1500);
    }

    static Map<String, Object> village(Map<String, String> row) {
        return document(row, settlement(row), 0.015, 300);
    }

    private static Map<String, Object> settlement(Map<String, String> row) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("regionId", Long.valueOf(row.get("regionId")));
        fields.put("isFeatured", Boolean.valueOf(row.get("isFeatured")));
        fields.put("population", Integer.valueOf(row.get("population")));
        return fields;
    }

    private static Map<String, Object> document(
            Map<String, String> row, Map<String, Object> fields, double radius, int points) {
        long id = Long.parseLong(row.get("id"));
        double lat = Double.parseDouble(row.get("lat"));
        double lon = Double.parseDouble(row.get("lon"));
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("id", id);
        document.put("countryIso", row.get("countryIso"));
        document.putAll(fields);
        document.put("centroid", point(lat, lon));
        document.put("names", names(row));
        document.put("geometry", Outline.around(lat, lon, radius, points, id));
        return document;
    }

    private static Map<String, Object> point(double lat, double lon) {
        Map<String, Object> point = new LinkedHashMap<>();
        point.put("lat", lat);
        point.put("lon", lon);
        return point;
    }

    /** Languages in which a place has no name are left out. */
    private static Map<String, String> names(Map<String, String> row) {
        Map<String, String> names = new TreeMap<>();
        for (String language : LANGUAGES) {
            String name = row.getOrDefault(language, "");
            if (!name.isEmpty()) {
                names.put(language, name);
            }
        }
        return names;
    }
}
